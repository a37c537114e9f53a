"""Find the places that jobs read and write beside their plain inputs and outputs: models, data sets of a query,
Debugger's rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from drivetrain.base.json_text import Json, object_in, objects_in
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.permissions.lookup import Lookup
from drivetrain.targets.sagemaker.permissions.places import S3Place

SUBMIT_DIRECTORY = "SAGEMAKER_SUBMIT_DIRECTORY"
"""Variable by which a toolkit of SageMaker's is told where the user's script lies."""
MANIFEST = "allow its role to read the objects that its manifest lists, too."
_DATA_SETS = {
    "AthenaDatasetDefinition": (
        "Athena asks under the step's role: allow it athena:StartQueryExecution, GetQueryExecution and GetQueryResults "
        "on the work group, and what the tables take (Glue, and the places of their data)."
    ),
    "RedshiftDatasetDefinition": (
        "Redshift writes under its ClusterRoleArn: allow that role the place of the rows, and the step's role what "
        "asking the cluster takes."
    ),
}


class DataLookup(Lookup):
    """Finds places behind the parts of a step's arguments; what cannot be found becomes a note."""

    def model_places(self, containers: Iterable[dict[str, Json]], step: StepNode | None, what: str) -> list[S3Place]:
        """Find the places of containers' models: each an object, or a folder whose objects are found by listing."""
        objects: list[Json] = []
        folders: list[Json] = []
        for container in containers:
            several = container.get("Mode") == "MultiModel"
            (folders if several else objects).append(container.get("ModelDataUrl"))
            for source in _model_sources(container):
                single = source.get("S3DataType") in (None, "S3Object") and not several
                (objects if single else folders).append(source.get("S3Uri"))
                if source.get("ManifestS3Uri") is not None:
                    objects.append(source["ManifestS3Uri"])
                    self.note(step, MANIFEST)
            if container.get("ModelPackageName") is not None:
                self.note(
                    step,
                    "its model is that of a model package; allow its role to read the place that the package names, "
                    "and the pipeline's role sagemaker:DescribeModelPackage on it.",
                )
        return [*self.places(objects, step, what, whole=True), *self.places(folders, step, what, folder=True)]

    def script_places(self, containers: Iterable[dict[str, Json]], step: StepNode) -> tuple[S3Place, ...]:
        """The scripts that the containers of a model fetch, each an archive."""
        given = (object_in(container, "Environment").get(SUBMIT_DIRECTORY) for container in containers)
        return self.places((unquoted(value) for value in given), step, "its script", whole=True)

    def data_set_places(
        self, inputs: Sequence[dict[str, Json]], step: StepNode
    ) -> Iterator[tuple[tuple[S3Place, ...], tuple[str, ...]]]:
        """Find the places that the rows of inputs that are queries are written to and read from, with the keys that
        encrypt them."""
        for item in inputs:
            given = object_in(item, "DatasetDefinition")
            for kind, says in _DATA_SETS.items():
                if source := object_in(given, kind):
                    self.note(step, f"input {str(item.get('InputName'))!r:.80} is a query: {says}")
                    rows = self.places([source.get("OutputS3Uri")], step, "the rows of an input", folder=True)
                    yield rows, self.keys([source.get("KmsKeyId")], step)

    def feature_groups(self, outputs: Iterable[dict[str, Json]], step: StepNode) -> None:
        """Outputs that go into Feature Store, whose group may have stores and keys of its own."""
        for item in outputs:
            if feature := object_in(item, "FeatureStoreOutput"):
                self.note(
                    step,
                    f"output {str(item.get('OutputName'))!r:.80} goes into a feature group: allow the step's role "
                    f"sagemaker:PutRecord and DescribeFeatureGroup on {str(feature.get('FeatureGroupName'))!r:.80}.",
                )

    def rules(self, arguments: dict[str, Json], step: StepNode) -> list[dict[str, Json]]:
        """Debugger's rules of a training, which SageMaker runs as processing jobs under the training's role."""
        kinds = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
        found = [rule for kind in kinds for rule in objects_in(arguments, kind)]
        if found:
            self.note(
                step,
                "the rules of its Debugger are jobs of the service's own naming under the step's role; allow it to "
                "write their log (/aws/sagemaker/ProcessingJobs).",
            )
        return found

    def manifests(self, sources: Iterable[dict[str, Json]], step: StepNode) -> None:
        if any("Manifest" in str(source.get("S3DataType")) for source in sources):
            self.note(step, MANIFEST)

    def note(self, step: StepNode | None, text: str) -> None:
        if step is not None:
            self.resolver.note(f"step {step.name!r}: {text}")


def unquoted(value: Json) -> Json:
    """Text as it is meant: SageMaker's SDK writes hyperparameters as JSON."""
    return value.strip('"') if isinstance(value, str) else value


def sealed(places: Iterable[S3Place], keys: Sequence[str]) -> tuple[tuple[S3Place, str], ...]:
    """Each place with each key that what lies there may be encrypted with."""
    return tuple((place, key) for place in places for key in keys)


def _model_sources(container: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """The descriptions of data in S3 of a container."""
    yield object_in(object_in(container, "ModelDataSource"), "S3DataSource")
    for item in objects_in(container, "AdditionalModelDataSources"):
        yield object_in(item, "S3DataSource")
    yield object_in(container, "AdditionalS3DataSource")
