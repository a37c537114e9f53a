"""The contracts by which platforms tell a host of its cluster, one file each, found by file name.

Each has

    SUMMARY: str                # what was read, for the launcher's first line
    ORDER: int                  # the lowest one that finds its contract decides
    def read(environment: Mapping[str, str], base: Path) -> Cluster | None

where `base` is the folder that SageMaker calls /opt/ml. `read` is pure but for the files below `base`; it gives None
where its platform is not the one, and raises InputError where it is and says what cannot be.
"""
