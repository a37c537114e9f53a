"""The ways of starting a program's processes, one file each, found by file name.

Each has

    SUMMARY: str                              # a line for --help
    def run(job: Job) -> Ended                # drivetrain.training.launch.job
"""
