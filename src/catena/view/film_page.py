"""Films as pages of one file, which play in the browser, with switches for what is shown besides the bodies."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection
from html import escape

import numpy as np

from catena.errors import CatenaError, ViewWarning
from catena.simulation.trajectory import Trajectory
from catena.view.framing import framing
from catena.view.scene import Scene
from catena.view.stage import LABELS, SHOWN, Stage, new_server, stop

_SCRIPT = """<style>
#shown { position: fixed; top: 0.75em; left: 0.75em; z-index: 1; display: flex; flex-wrap: wrap; gap: 0.4em; font: 13px sans-serif }
#shown button { font: inherit; padding: 0.35em 0.8em; border: 1px solid #d5dae0; border-radius: 4px; background: #fff; color: #464a50;
  cursor: pointer }
#shown button[aria-pressed=true] { background: #464a50; border-color: #464a50; color: #fff }
</style><script>
(() => {
  const {switches, middle} = GIVEN, shown = {};
  for (const {on, nodes} of switches) for (const node of nodes) shown[node] = on;
  let viewer;
  // what the film says is shown as the switches say, and on a narrow page from further away
  const changed = (message) => {
    if (message.type === "SetSceneNodeVisibilityMessage" && message.name in shown) return {...message, visible: shown[message.name]};
    if (message.type === "SetCameraPositionMessage") {
      const wide = Math.min(1, innerWidth / innerHeight);
      return {...message, position: message.position.map((x, i) => middle[i] + (x - middle[i]) / wide)};
    }
    return message;
  };
  Object.defineProperty(window, "__viserMutable", {configurable: true, get: () => viewer, set: (given) => {
    viewer = given;
    viewer.messageQueue.push = function (...messages) { return Array.prototype.push.apply(this, messages.map(changed)); };
  }});
  const bar = document.createElement("div");
  bar.id = "shown";
  for (const one of switches) {
    const button = document.createElement("button");
    button.textContent = one.label;
    button.setAttribute("aria-pressed", one.on);
    button.onclick = () => {
      one.on = !one.on;
      button.setAttribute("aria-pressed", one.on);
      for (const name of one.nodes) {
        shown[name] = one.on;
        viewer.messageQueue.push({type: "SetSceneNodeVisibilityMessage", name, visible: one.on, owner: ""});
      }
      viewer.requestRender();
      button.blur();
    };
    bar.append(button);
  }
  addEventListener("DOMContentLoaded", () => document.body.append(bar));
})();
</script>"""


def page(run: Trajectory, fps: float, show: Collection[str]) -> str:
    """Return a page that plays a run, with all that it needs in it."""
    scene = Scene(run.model)
    framed, forces = framing(scene, scene.places(run.t, run.q), fps), _forces(scene, run, "forces" in show)
    server = new_server(port=0)
    try:
        stage = Stage(server, scene, framed, show)
        stage.scale = scene.force_scale(forces)
        stage.show(float(run.t[0]), run.q[0], forces[0], framed.shifts[0])
        recording = server.get_scene_serializer()
        for k in range(1, len(run)):
            recording.insert_sleep(1.0 / fps)
            stage.show(float(run.t[k]), run.q[k], forces[k], framed.shifts[k])
        recording.insert_sleep(1.0 / fps)
        html = recording.as_html()
        nodes = {name: [node.name for node in stage.extras[name]] for name in SHOWN}
        middle = [*map(float, server.initial_camera.look_at)]
    finally:
        stop(server)
    switches = [{"label": LABELS[name], "on": name in show, "nodes": nodes[name]} for name in SHOWN if nodes[name]]
    given = json.dumps({"switches": switches, "middle": middle}).replace("<", "\\u003c")
    html = html.replace("<title>Viser</title>", f"<title>{escape(run.model.name)}</title>", 1)
    return html.replace("</head>", _SCRIPT.replace("GIVEN", given, 1) + "</head>", 1)


def _forces(scene: Scene, run: Trajectory, asked: bool) -> np.ndarray:
    """Return the forces over a run; none, with a warning, where they cannot be told and were not asked for."""
    try:
        return scene.forces(run.t, run.q, run.v, run._input)
    except CatenaError as error:
        if asked:
            raise
        warnings.warn(f"the film of '{run.model.name}' has no forces: {error}", ViewWarning, stacklevel=5)
        return np.zeros((len(run), 0, 2, 3))
