"""The fields of the IR, as its protobufs have them: pipeline_spec.proto and kubernetes_executor_config.proto.

A field's type is `text`, `bool`, `int`, `number`, `duration`, `any`, `object` (of any content), the name of an enum or
a message, or a `list` or `map` of one. Of the fields of a message with the same word after `|` at most one is given.
`deploymentSpec` and the executors of a platform are free objects in the protobufs; here they have the types that
readers take them for.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

ENUMS = {
    "ParameterTypeEnum": (
        "BOOLEAN",
        "LIST",
        "NUMBER_DOUBLE",
        "NUMBER_INTEGER",
        "STRING",
        "STRUCT",
        "TASK_CONFIG",
        "TASK_FINAL_STATUS",
    ),
    "PrimitiveTypeEnum": ("DOUBLE", "INT", "STRING"),
    "TaskConfigPassthroughTypeEnum": (
        "ENV",
        "KUBERNETES_AFFINITY",
        "KUBERNETES_NODE_SELECTOR",
        "KUBERNETES_TOLERATIONS",
        "KUBERNETES_VOLUMES",
        "RESOURCES",
    ),
    "TriggerStrategy": ("ALL_UPSTREAM_TASKS_COMPLETED", "ALL_UPSTREAM_TASKS_SUCCEEDED"),
}


class Field(NamedTuple):
    """A field of a message."""

    container: str
    """`list`, `map`, or empty for one value."""
    kind: str
    """The type of the value, or of each of them."""
    choice: str
    """What it is one of several of; empty where it stands alone."""


@cache
def messages() -> dict[str, dict[str, Field]]:
    """Message -> field -> what it is."""
    found: dict[str, dict[str, Field]] = {}
    fields: dict[str, Field] = {}
    for line in _TABLE.strip().splitlines():
        if not line.startswith(" "):
            fields = found[line] = {}
            continue
        name, _, rest = line.strip().partition(": ")
        kind, _, choice = rest.partition(" | ")
        container, space, of = kind.partition(" ")
        fields[name] = Field(container, of, choice) if space else Field("", kind, choice)
    return found


_TABLE = """
PipelineSpec
    pipelineInfo: PipelineInfo
    deploymentSpec: PipelineDeploymentConfig
    sdkVersion: text
    schemaVersion: text
    components: map ComponentSpec
    root: ComponentSpec
    defaultPipelineRoot: text
PlatformSpec
    platforms: map SinglePlatformSpec
PipelineDeploymentConfig
    executors: map ExecutorSpec
KubernetesExecutorConfig
    secretAsVolume: list SecretAsVolume
    secretAsEnv: list SecretAsEnv
    pvcMount: list PvcMount
    nodeSelector: NodeSelector
    podMetadata: PodMetadata
    imagePullSecret: list ImagePullSecret
    imagePullPolicy: text
    configMapAsVolume: list ConfigMapAsVolume
    configMapAsEnv: list ConfigMapAsEnv
    activeDeadlineSeconds: int
    fieldPathAsEnv: list FieldPathAsEnv
    tolerations: list Toleration
    genericEphemeralVolume: list GenericEphemeralVolume
    nodeAffinity: list NodeAffinityTerm
    podAffinity: list PodAffinityTerm
    enabledSharedMemory: EnabledSharedMemory
    emptyDirMounts: list EmptyDirMount
    securityContext: SecurityContext
PipelineInfo
    name: text
    displayName: text
    description: text
ComponentSpec
    inputDefinitions: ComponentInputsSpec
    outputDefinitions: ComponentOutputsSpec
    dag: DagSpec | implementation
    executorLabel: text | implementation
    singlePlatformSpecs: list SinglePlatformSpec
    taskConfigPassthroughs: list TaskConfigPassthrough
SinglePlatformSpec
    deploymentSpec: PlatformDeploymentConfig
    platform: text
    config: object
    pipelineConfig: PipelineConfig
ExecutorSpec
    container: PipelineContainerSpec | spec
    importer: ImporterSpec | spec
    resolver: ResolverSpec | spec
    customJob: AIPlatformCustomJobSpec | spec
SecretAsVolume
    secretName: text
    mountPath: text
    optional: bool
    secretNameParameter: TaskInputsSpec.InputParameterSpec
SecretAsEnv
    secretName: text
    keyToEnv: list SecretAsEnv.SecretKeyToEnvMap
    optional: bool
    secretNameParameter: TaskInputsSpec.InputParameterSpec
PvcMount
    taskOutputParameter: TaskInputsSpec.InputParameterSpec.TaskOutputParameterSpec | pvc_reference
    constant: text | pvc_reference
    componentInputParameter: text | pvc_reference
    mountPath: text
    pvcNameParameter: TaskInputsSpec.InputParameterSpec
    subPath: text
NodeSelector
    labels: map text
    nodeSelectorJson: TaskInputsSpec.InputParameterSpec
PodMetadata
    labels: map text
    annotations: map text
ImagePullSecret
    secretName: text
    secretNameParameter: TaskInputsSpec.InputParameterSpec
ConfigMapAsVolume
    configMapName: text
    mountPath: text
    optional: bool
    configMapNameParameter: TaskInputsSpec.InputParameterSpec
ConfigMapAsEnv
    configMapName: text
    keyToEnv: list ConfigMapAsEnv.ConfigMapKeyToEnvMap
    configMapNameParameter: TaskInputsSpec.InputParameterSpec
    optional: bool
FieldPathAsEnv
    name: text
    fieldPath: text
Toleration
    key: text
    operator: text
    value: text
    effect: text
    tolerationSeconds: int
    tolerationJson: TaskInputsSpec.InputParameterSpec
GenericEphemeralVolume
    volumeName: text
    mountPath: text
    accessModes: list text
    size: text
    defaultStorageClass: bool
    storageClassName: text
    metadata: PodMetadata
NodeAffinityTerm
    matchExpressions: list SelectorRequirement
    matchFields: list SelectorRequirement
    weight: int
    nodeAffinityJson: TaskInputsSpec.InputParameterSpec
PodAffinityTerm
    matchPodExpressions: list SelectorRequirement
    matchPodLabels: map text
    topologyKey: text
    namespaces: list text
    matchNamespaceExpressions: list SelectorRequirement
    matchNamespaceLabels: map text
    weight: int
    anti: bool
EnabledSharedMemory
    volumeName: text
    size: text
EmptyDirMount
    volumeName: text
    mountPath: text
    medium: text
    sizeLimit: text
SecurityContext
    runAsUser: int
    runAsGroup: int
    runAsNonRoot: bool
ComponentInputsSpec
    artifacts: map ComponentInputsSpec.ArtifactSpec
    parameters: map ComponentInputsSpec.ParameterSpec
ComponentOutputsSpec
    artifacts: map ComponentOutputsSpec.ArtifactSpec
    parameters: map ComponentOutputsSpec.ParameterSpec
DagSpec
    tasks: map PipelineTaskSpec
    outputs: DagOutputsSpec
TaskConfigPassthrough
    field: TaskConfigPassthroughTypeEnum
    applyToTask: bool
PlatformDeploymentConfig
    executors: map KubernetesExecutorConfig
PipelineConfig
    resourceTtlOnCompletion: int
    workspace: WorkspaceConfig
    resourceTtlOnSuccess: int
    resourceTtlOnFailure: int
    activeDeadlineSeconds: int
PipelineContainerSpec
    image: text
    command: list text
    args: list text
    lifecycle: Lifecycle
    resources: ResourceSpec
    env: list EnvVar
ImporterSpec
    artifactUri: ValueOrRuntimeParameter
    typeSchema: ArtifactTypeSchema
    properties: map ValueOrRuntimeParameter
    customProperties: map ValueOrRuntimeParameter
    reimport: bool
    metadata: object
    downloadToWorkspace: bool
ResolverSpec
    outputArtifactQueries: map ResolverSpec.ArtifactQuerySpec
AIPlatformCustomJobSpec
    customJob: object
TaskInputsSpec.InputParameterSpec
    taskOutputParameter: TaskInputsSpec.InputParameterSpec.TaskOutputParameterSpec | kind
    runtimeValue: ValueOrRuntimeParameter | kind
    componentInputParameter: text | kind
    taskFinalStatus: TaskInputsSpec.InputParameterSpec.TaskFinalStatus | kind
    parameterExpressionSelector: text
SecretAsEnv.SecretKeyToEnvMap
    secretKey: text
    envVar: text
TaskInputsSpec.InputParameterSpec.TaskOutputParameterSpec
    producerTask: text
    outputParameterKey: text
ConfigMapAsEnv.ConfigMapKeyToEnvMap
    configMapKey: text
    envVar: text
SelectorRequirement
    key: text
    operator: text
    values: list text
ComponentInputsSpec.ArtifactSpec
    artifactType: ArtifactTypeSchema
    isArtifactList: bool
    isOptional: bool
    description: text
ComponentInputsSpec.ParameterSpec
    type: PrimitiveTypeEnum
    parameterType: ParameterTypeEnum
    defaultValue: any
    isOptional: bool
    description: text
    literals: list any
ComponentOutputsSpec.ArtifactSpec
    artifactType: ArtifactTypeSchema
    properties: map ValueOrRuntimeParameter
    customProperties: map ValueOrRuntimeParameter
    metadata: object
    isArtifactList: bool
    description: text
ComponentOutputsSpec.ParameterSpec
    type: PrimitiveTypeEnum
    parameterType: ParameterTypeEnum
    description: text
PipelineTaskSpec
    taskInfo: PipelineTaskInfo
    inputs: TaskInputsSpec
    dependentTasks: list text
    cachingOptions: PipelineTaskSpec.CachingOptions
    componentRef: ComponentRef
    triggerPolicy: PipelineTaskSpec.TriggerPolicy
    artifactIterator: ArtifactIteratorSpec | iterator
    parameterIterator: ParameterIteratorSpec | iterator
    retryPolicy: PipelineTaskSpec.RetryPolicy
    iteratorPolicy: PipelineTaskSpec.IteratorPolicy
DagOutputsSpec
    artifacts: map DagOutputsSpec.DagOutputArtifactSpec
    parameters: map DagOutputsSpec.DagOutputParameterSpec
WorkspaceConfig
    size: text
    kubernetes: KubernetesWorkspaceConfig
Lifecycle
    preCacheCheck: Lifecycle.Exec
ResourceSpec
    cpuLimit: number
    memoryLimit: number
    cpuRequest: number
    memoryRequest: number
    resourceCpuLimit: text
    resourceMemoryLimit: text
    resourceCpuRequest: text
    resourceMemoryRequest: text
    accelerator: ResourceSpec.AcceleratorConfig
EnvVar
    name: text
    value: text
ValueOrRuntimeParameter
    constantValue: Value | value
    runtimeParameter: text | value
    constant: any | value
ArtifactTypeSchema
    schemaTitle: text | kind
    schemaUri: text | kind
    instanceSchema: text | kind
    schemaVersion: text
ResolverSpec.ArtifactQuerySpec
    filter: text
    limit: int
TaskInputsSpec.InputParameterSpec.TaskFinalStatus
    producerTask: text
PipelineTaskInfo
    name: text
TaskInputsSpec
    parameters: map TaskInputsSpec.InputParameterSpec
    artifacts: map TaskInputsSpec.InputArtifactSpec
PipelineTaskSpec.CachingOptions
    enableCache: bool
    cacheKey: text
ComponentRef
    name: text
PipelineTaskSpec.TriggerPolicy
    condition: text
    strategy: TriggerStrategy
ArtifactIteratorSpec
    items: ArtifactIteratorSpec.ItemsSpec
    itemInput: text
ParameterIteratorSpec
    items: ParameterIteratorSpec.ItemsSpec
    itemInput: text
PipelineTaskSpec.RetryPolicy
    maxRetryCount: int
    backoffDuration: duration
    backoffFactor: number
    backoffMaxDuration: duration
PipelineTaskSpec.IteratorPolicy
    parallelismLimit: int
DagOutputsSpec.DagOutputArtifactSpec
    artifactSelectors: list DagOutputsSpec.ArtifactSelectorSpec
DagOutputsSpec.DagOutputParameterSpec
    valueFromParameter: DagOutputsSpec.ParameterSelectorSpec | kind
    valueFromOneof: DagOutputsSpec.ParameterSelectorsSpec | kind
KubernetesWorkspaceConfig
    pvcSpecPatch: object
Lifecycle.Exec
    command: list text
    args: list text
ResourceSpec.AcceleratorConfig
    type: text
    count: int
    resourceType: text
    resourceCount: text
Value
    intValue: int | value
    doubleValue: number | value
    stringValue: text | value
TaskInputsSpec.InputArtifactSpec
    taskOutputArtifact: TaskInputsSpec.InputArtifactSpec.TaskOutputArtifactSpec | kind
    componentInputArtifact: text | kind
ArtifactIteratorSpec.ItemsSpec
    inputArtifact: text
ParameterIteratorSpec.ItemsSpec
    raw: text | kind
    inputParameter: text | kind
DagOutputsSpec.ArtifactSelectorSpec
    producerSubtask: text
    outputArtifactKey: text
DagOutputsSpec.ParameterSelectorSpec
    producerSubtask: text
    outputParameterKey: text
DagOutputsSpec.ParameterSelectorsSpec
    parameterSelectors: list DagOutputsSpec.ParameterSelectorSpec
TaskInputsSpec.InputArtifactSpec.TaskOutputArtifactSpec
    producerTask: text
    outputArtifactKey: text
"""
