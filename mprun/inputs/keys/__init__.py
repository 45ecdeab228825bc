# SPDX-License-Identifier: Apache-2.0
"""The models of files: which keys and values a topology or an experiment may hold."""

import sys
from types import ModuleType


def skip_plugins() -> None:
    """Keep pydantic from searching for plug-ins, which reads the metadata of every installed package.

    The search takes a tenth of the time that the input stage needs for 300 nodes. PYDANTIC_DISABLE_PLUGINS would do
    the same, but importlib.metadata would still be imported, and child processes would inherit it. If pydantic has
    moved its loader, this does nothing.
    """
    loader = ModuleType("pydantic.plugin._loader")
    loader.get_plugins = lambda: ()  # type: ignore[attr-defined]
    sys.modules.setdefault("pydantic.plugin._loader", loader)


# before the first model, which would begin the search
skip_plugins()
