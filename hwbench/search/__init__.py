"""Search: objectives, optimisers behind ask and tell, runs, and indicators of what they found."""

from hwbench.search.algorithms import ALGORITHMS, Algorithm, algorithm
from hwbench.search.objective import Constraint, Objective
from hwbench.search.optimiser import Optimiser, Setting
from hwbench.search.run import Run, run, trajectory
from hwbench.search.task import Evaluator, Task
from hwbench.search.trajectory import Trajectory, read

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Constraint",
    "Evaluator",
    "Objective",
    "Optimiser",
    "Run",
    "Setting",
    "Task",
    "Trajectory",
    "algorithm",
    "read",
    "run",
    "trajectory",
]
