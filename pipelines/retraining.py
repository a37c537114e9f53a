"""Retrain a model and register it when it is better than the champion: prepare, train, evaluate, compare, register.

    drivetrain run retraining
    drivetrain models approve retraining 1              # version 1 is the champion from now on
    drivetrain run retraining --set seed=8              # another model, compared with it
    drivetrain run retraining --set epochs=20 --set min_accuracy=0.98
    drivetrain run retraining --set spot=true --interrupt train@step=120
    drivetrain compile retraining -o retraining.json

Out of the box it learns the 1,797 handwritten digits that come with scikit-learn, on two processes. A model below the
floor fails the run; one that is not better than the champion, or is registered already, ends it without a new version.
"""

from drivetrain import (
    Cluster,
    Parameter,
    Pipeline,
    Settings,
    Spot,
    fail,
    join,
    processing_instance_type,
    register,
    step,
    when,
)
from drivetrain.components.compare import compare
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train

MAX_RUN_SECONDS = 86_400


class Retraining(Settings):
    """Settings to change in `retraining.yaml`, in the environment or with --set."""

    dataset: str = "example:digits"
    """A file or folder of CSV, Parquet or JSON Lines: a path, or an s3:// URI."""
    key: str = "id"
    """The column that identifies a row; it decides on which side of the split the row lies, for ever."""
    label: str = "label"
    """The column that is predicted."""
    recipe: str = "digits_cnn"
    """The recipe to train: one of the package, or a module of your own."""
    strategy: str = "ddp"
    """How it is distributed: single, ddp, fsdp, tp, pp, ... (docs/training.md), or auto."""
    strategy_options: str = "{}"
    """A JSON object, such as {"tensor": 2}."""
    continue_from: str = ""
    """An earlier model whose training goes on: previous (the approved version), or a version's number."""
    epochs: int = 20
    """How often the training data is gone through."""
    global_batch: int = 64
    """Samples a step, over all processes."""
    learning_rate: float = 0.003
    """The highest of the recipe's schedule."""
    health_rules: str = "{}"
    """The actions of health rules (docs/health.md), a JSON object: {"overfitting": {"action": "stop"}}."""
    seed: int = 7
    """The seed of initial weights and the order of the samples."""
    instance_type: str = "ml.m5.xlarge"
    """The machine of the training's hosts."""
    prepare_instance_type: str = "ml.m5.xlarge"
    """The machine that prepares the data."""
    evaluate_instance_type: str = ""
    """The machine that evaluates and compares models, one process a GPU; unless given the training's with its
    processes, or the smallest with one such GPU where processing jobs have no such machine."""
    hosts: int = 1
    """Machines of the training."""
    processes: int = 2
    """Training processes a host."""
    spot: bool = False
    """Train on spot machines: up to 90 % cheaper, taken back at any moment; training goes on from its checkpoint."""
    max_interruptions: int = 0
    """Only with spot=true: interruptions in a row after which the training fails, to be resumed with spot=false; 0 for
    any number."""
    min_accuracy: float = 0.97
    """The floor: a model below this test accuracy is not registered."""
    metric: str = "accuracy"
    """The metric by which the champion is compared."""
    rule: str = "better"
    """How the candidate must compare, surely and not by chance: better, or not_worse."""
    margin: float = 0.0
    """A difference of the metric: with better what must be gained, with not_worse what may be lost."""
    slices: str = ""
    """Columns by whose values everything is measured, too, such as "site, device"."""
    budgets: str = "{}"
    """By how much metrics may be worse than the champion's, a JSON object: {"accuracy@site=*": 0.02}."""
    budget_rule: str = "significant"
    """Budgets: significant (exceeded by a significant loss), or proven (a greater loss must be ruled out)."""
    margin_from: str = "best"
    """With not_worse the margin counts from the best approved version (best), or from the champion alone."""
    nights: str = "pooled"
    """With better: all candidates of one line are tested together (pooled), or each comparison alone (bonferroni)."""
    lines: int = 4
    """With pooled: how many lines of candidates are begun a year at most."""
    model_group: str = "retraining"
    """The model package group in which versions are registered."""
    first: bool = False
    """A group that you name has no versions yet."""
    seen_data: str = "refuse"
    """If the model knows rows of the test set: refuse to decide, or report it in the decision."""
    intended_use: str = ""
    """The purpose of the model, in a sentence for its card."""


def retraining(settings: Retraining) -> Pipeline:
    min_accuracy = Parameter.number("MinAccuracy", default=settings.min_accuracy)
    approval = Parameter.string(
        "ModelApprovalStatus", default="PendingManualApproval", choices=("Approved", "PendingManualApproval")
    )

    spot = Spot(max_wait_seconds=2 * MAX_RUN_SECONDS, max_interruptions=settings.max_interruptions or None)

    data = step(
        prepare_data,
        name="prepare",
        raw=settings.dataset,
        key=settings.key,
        label=settings.label,
        test_percent=20,
        cluster=Cluster(instance_type=settings.prepare_instance_type),
    )
    model = step(
        train,
        train=data["train"],
        validation=data["validation"],
        continue_from=settings.continue_from,
        recipe=settings.recipe,
        strategy=settings.strategy,
        strategy_options=settings.strategy_options,
        epochs=settings.epochs,
        global_batch=settings.global_batch,
        learning_rate=settings.learning_rate,
        health_rules=settings.health_rules,
        seed=settings.seed,
        cluster=Cluster(
            instance_type=settings.instance_type,
            count=settings.hosts,
            processes=settings.processes,
            max_run_seconds=MAX_RUN_SECONDS,
            spot=spot if settings.spot else None,
        ),
    )
    evaluating = settings.evaluate_instance_type or processing_instance_type(settings.instance_type)
    machine = Cluster(
        instance_type=evaluating, processes=settings.processes if evaluating == settings.instance_type else None
    )
    scores = step(evaluate, model=model["model"], data=data["test"], slices=settings.slices, cluster=machine)
    compared = step(
        compare,
        evaluation=scores["report"],
        model=model["model"],
        data=data["test"],
        group=settings.model_group,
        metric=settings.metric,
        rule=settings.rule,
        margin=settings.margin,
        floors=join('{"accuracy": ', min_accuracy, "}"),
        budgets=settings.budgets,
        budget_rule=settings.budget_rule,
        margin_from=settings.margin_from,
        nights=settings.nights,
        lines=settings.lines,
        seen_data=settings.seen_data,
        # Nobody mistypes the name that stands here.
        first=settings.first or settings.model_group == Retraining.model_fields["model_group"].default,
        cluster=machine,
    )

    new_version = register(
        model=model["model"],
        evaluation=scores,
        decision=compared,
        group=settings.model_group,
        approval=approval,
        intended_use=settings.intended_use,
    )
    too_low = fail(join("not registered: ", compared.text("why")))
    # Otherwise the champion stays, or the very model is registered already: nothing is left to do.
    floors = when(compared.metric("floors_met").equals(0), then=[too_low], name="below-floors")
    gate = when(compared.metric("register").equals(1), then=[new_version], otherwise=[floors], name="register")

    return Pipeline(
        name="retraining",
        description="Prepare data, train on several processes, evaluate, and register the model if it beats the "
        "champion.",
        parameters=[min_accuracy, approval],
        steps=[data, model, scores, compared, gate],
        deployment=settings.deployment,
    )
