"""Private set intersection between tables on two clusters of Spark; needs the extra `vesica[spark]`.

Each side's driver calls `receive` or `send` with a data frame. Executors normalise and hash the keys, the two drivers agree
on a job, and Spark puts the hashes into padded buckets in a staging directory. Then each bucket is one task of Spark
against one task of the other side, which may as well be `vesica bucket` on machines without Spark. docs/scale-out.md has
the protocol, and how to set clusters up.

    spark-submit "$(python -c 'import vesica.spark; print(vesica.spark.__file__)')" receive --help
"""

import sys

from vesica._spark import main, receive, send

__all__ = ["receive", "send"]

if __name__ == "__main__":
    sys.exit(main())
