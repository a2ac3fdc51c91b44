"""Whole models with algorithms and rewrites of users: switched on by name, any size, threads, plan files, tuning."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
import cenote.functional as F
from cenote.algorithms import Candidate, PoolProblem, Target
from cenote.core.extensions import switched
from cenote.core.extensions.switched import registered_extensions
from cenote.core.types import Array
from cenote.kernels.pool import small_window
from tests import shop_algorithms
from tests.shop_networks import NAMES, POOL, network, picture, serialized, wanted

PICTURE = picture(1, 8, 12, 12)


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the shop registers, and what a test registers besides until its end."""
    monkeypatch.setattr(switched, "_registered", {name: SHOP[name] for name in NAMES})


SHOP = {name: each for name, each in registered_extensions().items() if name in NAMES}


def close(y: Array, x: Array) -> None:
    np.testing.assert_allclose(y, wanted(x), atol=1e-4)


def test_they_are_off_unless_they_are_named() -> None:
    plan = cenote.load(network()).plan.describe()
    assert plan.from_outside == ()
    model = cenote.load(network(), extensions=NAMES)
    close(model(PICTURE), PICTURE)
    lines = model.plan.describe().from_outside
    assert [line.partition(",")[0] for line in lines] == [
        "shop.by_rows", "shop.direct", "shop.fold", "shop.cancel",
    ]  # fmt: skip
    assert all(" of shop_algorithms.py:" in line for line in lines)
    assert "from outside: shop.direct, of shop_algorithms.py:" in str(model.plan)
    by_algorithm = {step.algorithm: step.origin for step in model.plan.describe().steps}
    assert by_algorithm["shop.direct"].startswith("shop.direct, of shop_algorithms.py:")
    assert by_algorithm.get("elementwise", "") == ""


def test_a_plan_for_any_size_and_any_number_of_threads() -> None:
    answers = []
    for threads in (1, 2):
        model = cenote.load(network(("n", 8, "h", "w")), extensions=NAMES, threads=threads)
        for shape in ((1, 8, 12, 12), (2, 8, 20, 9), (1, 8, 40, 33)):
            x = picture(*shape)
            answers.append(model(x))
            close(answers[-1], x)
        assert any("shop.direct" in line for line in model.plan.describe().from_outside)
        assert len(model.plans) < 3, "a plan is for all sizes of a class"
    for one, two in zip(answers[:3], answers[3:], strict=True):
        assert one.tobytes() == two.tobytes()


def test_verify_takes_extensions_and_finds_a_wrong_one() -> None:
    good = cenote.verify_with(network(), cenote.LoadOptions(extensions=NAMES), inputs={"x": PICTURE})
    assert good.ok, str(good)

    @cenote.register_rewrite("shop.wrong")
    def wrong(graph: Any) -> Any:
        (mul,) = [node for node in graph.nodes if node.op.name == "mul"]
        factor = mul.inputs[0]
        return graph.replace(constants={**graph.constants, factor: graph.constants[factor] * 2})

    options = cenote.LoadOptions(extensions=("shop.wrong",))
    assert not cenote.verify_with(network(), options, inputs={"x": PICTURE}).ok


def test_a_profile_says_where_they_come_from() -> None:
    model = cenote.load(network(), extensions=NAMES)
    profile = model.profile(PICTURE, seconds=0.05)
    assert any(note.startswith("from outside: shop.direct, of shop_algorithms.py:") for note in profile.notes)
    assert "from outside: shop.fold, of shop_algorithms.py:" in str(profile)


def test_tuning_measures_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As rivals of Cenote's own, under the digest of their source."""
    from cenote.compiler import tune

    seen: list[str] = []

    def measure(node: Any, types: Any, options: Any, *others: Any) -> list[float]:
        seen.extend(tune.label(each) for each in options)
        return [1e-3 if each.name == "shop.again" else 1.0 for each in options]

    @cenote.register_algorithm("shop.again", of="pool")
    def again(problem: PoolProblem, target: Target) -> Candidate | None:
        return small_window.offer(problem, target)

    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path))  # where no figure is kept yet
    monkeypatch.setattr(tune.Tuner.__init__, "__defaults__", (measure,))
    large = serialized([POOL], (4, 64, 112, 112))
    model = cenote.load(large, extensions=("shop.again",), tune="full")
    digest = registered_extensions()["shop.again"].reference.digest
    (labelled,) = [text for text in seen if text.startswith("shop.again ") and " c" not in text][:1] or [""]
    assert labelled.endswith(digest), seen
    assert {step.algorithm for step in model.plan.describe().steps} & {"shop.again"}


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda problem, target: 1 / 0, r"raised ZeroDivisionError: .*test_user_algorithms\.py:\d+"),
        (lambda problem, target: 3, "returned 3, not a Candidate or None"),
        (lambda problem, target: Candidate(float("nan"), print), "estimates nan, not a number of seconds"),
        (lambda problem, target: Candidate(-1.0, print), "estimates -1.0, not"),
        (lambda problem, target: Candidate("soon", print), "estimates 'soon', not"),  # type: ignore[arg-type]
        (lambda problem, target: Candidate(0.0, lambda *views: 1 / 0), "raised ZeroDivisionError"),
        (lambda problem, target: Candidate(0.0, lambda *views: 3), "made 3, not a Call"),
    ],
)
def test_what_a_pooling_algorithm_does_wrong(function: Callable[..., Any], said: str) -> None:
    cenote.register_algorithm("shop.bad", of="pool")(function)
    with pytest.raises(cenote.OperatorError, match=rf"pool.*algorithm shop\.bad, .*test_user_algo.*{said}"):
        cenote.load(serialized([POOL]), extensions=("shop.bad",))


def named_otherwise(problem: Any, target: Target) -> Iterator[Any]:
    yield from shop_algorithms.by_rows(problem, target)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda problem, target: iter([1 / 0]), "raised ZeroDivisionError"),
        (lambda problem, target: 3, "returned 3, not a Lowering or None"),
        (lambda problem, target: [3], "returned 3, not a Lowering or None"),
        (named_otherwise, r"offers 'shop\.by_rows'; the names of its lowerings are 'shop\.bad'"),
        (
            lambda problem, target: problem.lowering(
                "shop.bad", shop_algorithms.Layout(target.lanes()), -1.0, print
            ),
            "estimates -1.0",
        ),
        (
            lambda problem, target: problem.lowering(
                "shop.bad", shop_algorithms.Layout(target.lanes()), 0.0, lambda *_: 1 / 0
            ),
            "raised ZeroDivisionError",
        ),
    ],
)
def test_what_a_convolution_algorithm_does_wrong(function: Callable[..., Any], said: str) -> None:
    cenote.register_algorithm("shop.bad", of="convolution")(function)
    with pytest.raises(cenote.OperatorError, match=rf"conv.*algorithm shop\.bad, .*{said}"):
        cenote.load(network(), extensions=("shop.bad",))


# ---- named ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 8, 12, 12), ("n", 8, "h", "w")], ids=["fixed", "open"])
@pytest.mark.parametrize("key", ["pool", "max_pool"])
def test_algorithms_switches_them_on(shape: tuple[int | str, ...], key: str) -> None:
    model = cenote.load(network(shape), algorithms={key: "shop.direct"})
    close(model(PICTURE), PICTURE)
    (step,) = (step for step in model.plan.describe().steps if step.origin)
    assert (step.node, step.algorithm, step.reason) == ("pool", "shop.direct", "named by the caller")
    assert [line.partition(",")[0] for line in model.plan.describe().from_outside] == ["shop.direct"]


def test_a_named_algorithm_is_in_keys_and_plans_with_its_digest(tmp_path: Path) -> None:
    reference = registered_extensions()["shop.direct"].reference
    options = cenote.LoadOptions(algorithms={"pool": "shop.direct"})
    assert options.extensions == (reference,)
    assert options.changed(threads=1).extensions == (reference,)
    assert cenote.LoadOptions().changed(algorithms={"pool": "shop.direct"}).extensions == (reference,)
    both = cenote.LoadOptions(algorithms={"pool": "shop.direct"}, extensions=("shop.fold", "shop.direct"))
    assert [each[0] for each in both.extensions] == ["shop.fold", "shop.direct"]
    model, plan = tmp_path / "m.onnx", tmp_path / "p.cenote"
    model.write_bytes(network(("n", 8, "h", "w")))
    made = cenote.load(model, algorithms={"pool": "shop.direct"})
    answer = made(PICTURE)
    made.save(plan)
    cenote.unregister("shop.direct")
    again = cenote.load(plan)
    assert again(PICTURE).tobytes() == answer.tobytes()


def test_lowerings_of_a_convolution_may_have_longer_names() -> None:
    for name in ("shop.by_rows", "shop.by_rows_4"):
        options = cenote.LoadOptions(algorithms={"conv": name})
        assert [each[0] for each in options.extensions] == ["shop.by_rows"]
    model = cenote.load(network(), algorithms={"conv": "shop.by_rows"})
    close(model(PICTURE), PICTURE)
    assert "shop.by_rows" in {step.algorithm for step in model.plan.describe().steps}
    with pytest.raises(
        cenote.ArgumentError, match=r"'shop\.by_rows_4', of .* does not serve it .*shop\.by_rows"
    ):
        cenote.load(network(), algorithms={"conv": "shop.by_rows_4"})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "shop.dirct",
            r"no algorithm 'shop\.dirct' is registered \(known: .*close to it: shop\.direct.*entry points",
        ),
        ("shop.fold", r'shop\.fold is a rewrite, .*extensions=\("shop\.fold",\)'),
        (
            "shop.by_rows",
            r'shop_algorithms\.py.* does not serve it .*of="convolution"\); possible: .*reference',
        ),
    ],
)
def test_what_is_no_algorithm_of_a_pool_is_refused(name: str, said: str) -> None:
    with pytest.raises(cenote.ArgumentError, match=f"^algorithms: .*{said}"):
        cenote.load(network(), algorithms={"max_pool": name})
    for x in (PICTURE, PICTURE[:0]):
        with pytest.raises(cenote.ArgumentError, match=f"^max_pool2d: algorithm: .*{said}"):
            F.max_pool2d(x, 3, stride=1, algorithm=name)


def test_functions_take_them() -> None:
    wanted = F.max_pool2d(PICTURE, 3, stride=1)
    for _ in range(4):  # native code runs a call from the third on
        assert np.array_equal(F.max_pool2d(PICTURE, 3, stride=1, algorithm="shop.direct"), wanted)
    found = F.explain("max_pool2d", PICTURE, 3, stride=1, algorithm="shop.direct")
    assert (found.algorithm, found.kind) == ("shop.direct", "kernel")
    assert found.origin.startswith("shop.direct, of shop_algorithms.py:")
    assert f"from outside: {found.origin}" in str(found)
    plain = F.explain("max_pool2d", PICTURE, 3, stride=1)
    assert plain.origin == ""
    assert "shop.direct" not in dict(plain.rivals)
    assert F.max_pool2d(PICTURE[:0], 3, stride=1, algorithm="shop.direct").shape == (0, 8, 10, 10)
    with pytest.raises(cenote.ArgumentError, match=r"does not serve it .*of=\"pool\"\); possible: "):
        F.max_pool2d(PICTURE, 3, stride=2, algorithm="shop.direct")


def test_a_call_takes_the_algorithm_that_has_the_name_now() -> None:
    """Calls that are prepared, and those that native code knows, hold the algorithm of before."""
    asked = list[str]()

    def version(name: str) -> Callable[..., Any]:
        def mine(problem: PoolProblem, target: Target) -> Candidate | None:
            asked.append(name)
            return small_window.offer(problem, target)

        return mine

    for name in ("one", "two"):
        cenote.register_algorithm("shop.mine", of="pool")(version(name))
        for _ in range(4):
            F.max_pool2d(PICTURE, 3, stride=1, algorithm="shop.mine")
        assert asked[-1] == name
    cenote.unregister("shop.mine")
    with pytest.raises(cenote.ArgumentError, match=r"no algorithm 'shop\.mine' is registered"):
        F.max_pool2d(PICTURE, 3, stride=1, algorithm="shop.mine")


def test_names_are_looked_for_in_installed_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing what is installed registers the algorithm."""
    monkeypatch.setattr(switched, "_registered", {})
    monkeypatch.setattr(
        switched,
        "import_installed",
        lambda: switched._registered.update({"shop.direct": SHOP["shop.direct"]}),
    )
    F.max_pool2d(PICTURE, 3, stride=1, algorithm="shop.direct")
    switched._registered.clear()
    model = cenote.load(network(), algorithms={"pool": "shop.direct"})
    assert len(model.plan.describe().from_outside) == 1


# ---- plan files -----------------------------------------------------------------------------------------------------


def test_a_plan_runs_without_what_made_it_and_plans_nothing_anew(tmp_path: Path) -> None:
    model, plan = tmp_path / "m.onnx", tmp_path / "p.cenote"
    model.write_bytes(network(("n", 8, "h", "w")))
    made = cenote.load(model, extensions=NAMES)
    answer = made(PICTURE)
    made.save(plan)
    again = cenote.load(plan)
    assert again(PICTURE).tobytes() == answer.tobytes()
    assert [line.partition(",")[0] for line in again.plan.describe().from_outside][-1] == "shop.cancel"
    with pytest.raises(cenote.UnsupportedError, match=r"extensions=.*shop\.fold"):
        cenote.load(plan, extensions=("shop.fold",))


def test_another_version_of_an_algorithm_has_other_keys() -> None:
    one = cenote.LoadOptions(extensions=("shop.direct",))
    assert one.key() != cenote.LoadOptions().key()
    assert registered_extensions()["shop.direct"].reference.digest in one.key()["extensions"]


def _child(model: cenote.Model, shape: tuple[int, ...], results: Any) -> None:
    results.put(model(picture(*shape)).tobytes())


def test_a_fork_plans_other_sizes() -> None:
    model = cenote.load(network(("n", 8, "h", "w")), extensions=NAMES)
    model(PICTURE)
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    process = context.Process(target=_child, args=(model, (1, 8, 25, 31), results))
    process.start()
    made = results.get(timeout=60)
    process.join()
    assert made == model(picture(1, 8, 25, 31)).tobytes()
