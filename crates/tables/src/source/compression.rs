//! Compression of a text as a whole.

use std::io::{self, BufReader, Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// How a text is compressed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Compression {
    /// gzip, of any number of members.
    Gzip,
    /// Zstandard, of any number of frames, with windows of at most 128 MiB.
    Zstd,
}

impl Compression {
    /// By the first bytes of a file.
    pub(crate) fn of_content(start: &[u8]) -> Option<Compression> {
        if start.starts_with(GZIP_MAGIC) {
            Some(Compression::Gzip)
        } else if start.starts_with(ZSTD_MAGIC) {
            Some(Compression::Zstd)
        } else {
            None
        }
    }

    /// The name without the extension that stands for a compression, and that compression.
    pub(crate) fn split_name(name: &str) -> (&str, Option<Compression>) {
        for (extension, compression) in [
            (".gz", Compression::Gzip),
            (".zst", Compression::Zstd),
            (".zstd", Compression::Zstd),
        ] {
            if let Some((stem, end)) =
                name.split_at_checked(name.len().wrapping_sub(extension.len()))
                && end.eq_ignore_ascii_case(extension)
            {
                return (stem, Some(compression));
            }
        }
        (name, None)
    }

    /// Its name: `gzip` or `zstd`.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    /// The text that was compressed. Damage is an error of the kind `InvalidData` or `UnexpectedEof`.
    pub(crate) fn decompress<'r>(
        self,
        raw: impl Read + Send + 'r,
    ) -> io::Result<Box<dyn Read + Send + 'r>> {
        let raw = BufReader::with_capacity(64 << 10, raw);
        Ok(match self {
            Compression::Gzip => Box::new(MultiGzDecoder::new(raw)),
            Compression::Zstd => Box::new(Zstd(zstd::Decoder::with_buffer(raw)?)),
        })
    }

    /// Lets `f` write what is then compressed.
    pub(crate) fn compress<T, E>(
        self,
        out: &mut (dyn Write + Send),
        f: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, E>,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<T, E> {
        match self {
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(out, flate2::Compression::default());
                let result = f(&mut encoder)?;
                encoder.finish().map_err(failed)?;
                Ok(result)
            }
            Compression::Zstd => {
                let level = zstd::DEFAULT_COMPRESSION_LEVEL;
                let mut encoder = zstd::Encoder::new(out, level).map_err(&failed)?;
                encoder.include_checksum(true).map_err(&failed)?;
                let result = f(&mut encoder)?;
                encoder.finish().map_err(failed)?;
                Ok(result)
            }
        }
    }
}

/// Zstandard text. The library says `Other` of damage, as an operating system might of a device.
struct Zstd<R>(R);

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out).map_err(|e| match e.kind() {
            io::ErrorKind::Other => io::Error::new(io::ErrorKind::InvalidData, e),
            _ => e,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contents() {
        assert_eq!(
            Compression::split_name("a.csv.GZ"),
            ("a.csv", Some(Compression::Gzip))
        );
        assert_eq!(
            Compression::split_name("é.zst"),
            ("é", Some(Compression::Zstd))
        );
        assert_eq!(Compression::split_name("gz"), ("gz", None));
        assert_eq!(
            Compression::of_content(b"\x1f\x8bx"),
            Some(Compression::Gzip)
        );
        assert_eq!(Compression::of_content(b"id,x\n"), None);
    }

    #[test]
    fn what_is_compressed_comes_back_and_damage_is_named() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let mut packed = Vec::new();
            let text = b"id,x\n1,2\n".repeat(10_000);
            let written = compression.compress(&mut packed, |out| out.write_all(&text), |e| e);
            written.unwrap();
            assert_eq!(Compression::of_content(&packed), Some(compression));
            // Two in a row are one text.
            let twice = [&packed[..], &packed[..]].concat();
            let mut back = Vec::new();
            let mut reader = compression.decompress(&twice[..]).unwrap();
            reader.read_to_end(&mut back).unwrap();
            assert!(back == [&text[..], &text[..]].concat());

            let read = |bytes: &[u8]| {
                let mut reader = compression.decompress(bytes).unwrap();
                reader.read_to_end(&mut Vec::new()).unwrap_err().kind()
            };
            let cut = read(&packed[..packed.len() - 5]);
            assert_eq!(cut, io::ErrorKind::UnexpectedEof);
            let mut spoilt = packed.clone();
            spoilt[12..16].fill(0xff);
            let kinds = [io::ErrorKind::InvalidData, io::ErrorKind::InvalidInput];
            assert!(kinds.contains(&read(&spoilt)), "{compression:?}");
        }
    }
}
