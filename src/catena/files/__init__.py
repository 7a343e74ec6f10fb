"""Model files: `load` makes a model of a TOML, URDF or MJCF file; `save` writes a model as TOML, or a tree as URDF.

formats      load and save, by the ending of a file
toml_*       catena's own format: everything but Python code
urdf_*       URDF, with loops of URDF+ or of a YAML file beside it
mjcf_*       MJCF, compiled by MuJoCo; its equalities become loops
xml_reader   elements with their lines, for both
precision    loops that close to the digits of their file only
"""

from catena.files.formats import load, save

__all__ = ["load", "save"]
