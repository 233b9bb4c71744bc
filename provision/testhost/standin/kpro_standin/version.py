"""The version of the package; the wheel builder writes this file anew for other versions."""

VERSION = "1.0.0"
