"""catena: recursive multibody dynamics. Describe a mechanism; get its equations of motion as fast NumPy functions."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from catena import environments as environments
    from catena.public_names import *  # noqa: F403
    from catena.public_names import __all__ as __all__
    from catena.version import __version__ as __version__
else:

    def __getattr__(name: str) -> Any:
        """Return a room of catena, or import all public names, when one is first used: `import catena` itself takes no time."""
        if name == "__version__":
            return import_module("catena.version").__version__
        if not name.startswith("__") and find_spec(f"catena.{name}"):
            return import_module(f"catena.{name}")
        if name == "__all__" or not name.startswith("_"):
            names = import_module("catena.public_names")
            globals().update({public: getattr(names, public) for public in ("__all__", *names.__all__)})
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module 'catena' has no attribute {name!r}")

    def __dir__() -> list[str]:
        """Return the public names."""
        return [*__getattr__("__all__"), "__version__", "environments"]
