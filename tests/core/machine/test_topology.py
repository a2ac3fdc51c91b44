"""Cores and nodes of machines that are described by files, as Linux describes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cenote.core.machine.topology import (
    around_team,
    cores_by_node,
    cpus_of_team,
    listed,
    running_on,
)


def machine(folder: Path, nodes: list[str], cores: dict[int, tuple[int, int]]) -> Path:
    """A machine's files: the list of CPUs of each node, and (package, core) of each CPU."""
    for number, cpus in enumerate(nodes):
        (folder / f"node/node{number}").mkdir(parents=True)
        (folder / f"node/node{number}/cpulist").write_text(f"{cpus}\n")
    for cpu, (package, core) in cores.items():
        topology = folder / f"cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{package}\n")
        (topology / "core_id").write_text(f"{core}\n")
    return folder


@pytest.fixture
def two_nodes(tmp_path: Path) -> Path:
    """Two packages of four cores, each core with two CPUs, as servers number them: 0-3 and 8-11, 4-7 and 12-15."""
    cores = {cpu: (cpu // 4 % 2, cpu % 4) for cpu in range(16)}
    return machine(tmp_path, ["0-3,8-11", "4-7,12-15"], cores)


def test_lists_as_linux_writes_them() -> None:
    assert listed("0-3,8,10-11\n") == [0, 1, 2, 3, 8, 10, 11]
    assert listed("\n") == []


def test_each_node_has_a_cpu_of_each_core(two_nodes: Path) -> None:
    assert cores_by_node(two_nodes, set(range(16))) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert cores_by_node(two_nodes, {2, 10, 11, 13, 14}) == [[2, 11], [13, 14]]
    assert cores_by_node(two_nodes, {12, 13}) == [[12, 13]]


def test_without_descriptions_every_cpu_is_a_core_of_one_node(tmp_path: Path) -> None:
    assert cores_by_node(tmp_path, {0, 3, 5}) == [[0, 3, 5]]


def test_a_team_stays_on_one_node_where_it_fits(two_nodes: Path) -> None:
    nodes = cores_by_node(two_nodes, set(range(16)))
    assert cpus_of_team(4, nodes) == (0, 1, 2, 3)
    assert cpus_of_team(6, nodes) == (0, 1, 2, 3, 4, 5)
    assert cpus_of_team(10, nodes) == (0, 1, 2, 3, 4, 5, 6, 7, 0, 1)
    # The smaller of the nodes that have enough, so that larger teams find room.
    uneven = cores_by_node(two_nodes, {0, 1, 2, 3, 5, 6})
    assert cpus_of_team(2, uneven) == (5, 6)
    assert cpus_of_team(3, uneven) == (0, 1, 2)


def test_teams_of_one_size_share_no_core_while_there_are_enough(two_nodes: Path) -> None:
    nodes = cores_by_node(two_nodes, set(range(16)))
    assert [cpus_of_team(2, nodes, number) for number in range(5)] == [(0, 1), (2, 3), (4, 5), (6, 7), (0, 1)]
    # A third team of two has the core that each node has left.
    assert [cpus_of_team(2, [[0, 1, 2], [4, 5, 6]], number) for number in range(3)] == [
        (0, 1),
        (4, 5),
        (2, 6),
    ]
    for threads in range(1, 9):
        teams = [cpus_of_team(threads, nodes, number) for number in range(8 // threads)]
        assert len({cpu for team in teams for cpu in team}) == threads * len(teams)


def test_memory_is_touched_on_the_nodes_of_the_team(two_nodes: Path) -> None:
    nodes = cores_by_node(two_nodes, set(range(16)))
    assert around_team(3, nodes) == {0, 1, 2, 3}
    assert around_team(7, nodes) == set(range(8))
    assert around_team(3, nodes[:1]) == set()  # one node: all memory is of it


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone binds threads")
def test_a_thread_is_where_it_was_allowed_afterwards() -> None:
    before = os.sched_getaffinity(0)
    with running_on({min(before)}):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before
    with running_on({100_000}):  # a CPU that is not there: nothing changes
        assert os.sched_getaffinity(0) == before
    with running_on(set()):
        assert os.sched_getaffinity(0) == before
