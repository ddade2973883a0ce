//! Decimals as texts.

/// A decimal with all the digits of its declared scale: 1250 at scale 2 is `12.50`.
pub(crate) fn write_decimal(unscaled: &str, scale: i8, out: &mut String) {
    let (sign, digits) = match unscaled.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", unscaled),
    };
    out.push_str(sign);
    let places = usize::from(scale.unsigned_abs());
    if scale <= 0 {
        out.push_str(digits);
        if digits != "0" {
            out.extend(std::iter::repeat_n('0', places));
        }
        return;
    }
    if digits.len() <= places {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', places - digits.len()));
        out.push_str(digits);
    } else {
        let (whole, fraction) = digits.split_at(digits.len() - places);
        out.push_str(whole);
        out.push('.');
        out.push_str(fraction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_has_all_digits_of_its_scale() {
        for (unscaled, scale, expected) in [
            ("1250", 2, "12.50"),
            ("-5", 2, "-0.05"),
            ("0", 3, "0.000"),
            ("7", 0, "7"),
            ("7", -2, "700"),
            ("0", -2, "0"),
            ("123", 3, "0.123"),
        ] {
            let mut text = String::new();
            write_decimal(unscaled, scale, &mut text);
            assert_eq!(text, expected);
        }
    }
}
