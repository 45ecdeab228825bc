# SPDX-License-Identifier: Apache-2.0
"""The table of engines, through which the rest of mprun uses them.

Each engine is a module with the names of `Engine`. No other code compares the name of an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Unpack

from mprun.engines import real, virtual
from mprun.engines.agent_process import RunProgress
from mprun.engines.debugger import Attended
from mprun.kernel.store import Kernel
from mprun.model.capabilities import Capabilities
from mprun.model.engine_name import EngineName
from mprun.model.plan import Plan
from mprun.storage.run_directory import RunDirectory


class Engine(Protocol):
    """A way to carry out plans on this machine. Each engine is a module with these names.

    - NAME: the engine's name in files and results.
    - IS_SIMULATED: the clock is simulated. Runs repeat byte by byte, and several may run at the same time.
    - IS_ON_MACHINE_KERNEL: runs use the kernel of the user's machine, and not a kernel that the engine boots.
    """

    @property
    def NAME(self) -> EngineName: ...

    @property
    def IS_SIMULATED(self) -> bool: ...

    @property
    def IS_ON_MACHINE_KERNEL(self) -> bool: ...

    def find_kernel(self, name: str) -> Kernel | None:
        """Return the kernel that the engine boots; None if it boots none. Raises MachineError with a remedy."""
        ...

    def missing(self, plan: Plan, capabilities: Capabilities) -> str | None:
        """Return what this machine lacks for a plan, with a remedy; None if it lacks nothing."""
        ...

    def run_plan(
        self, plan: Plan, run: RunDirectory, kernel: Kernel | None, progress: RunProgress, **attended: Unpack[Attended]
    ) -> None:
        """Run the agent on a plan. Afterwards, the run directory has the agent's raw results.

        kernel: the result of `find_kernel`. Raises MachineError, RunError or Interrupted.
        """
        ...


ENGINES: Mapping[EngineName, Engine] = {"virtual": virtual, "real": real}
