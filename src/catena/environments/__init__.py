"""Environments for reinforcement learning, of models: Gymnasium's, one or thousands at once. Needs gymnasium: `pip install "catena[gym]"`.

Importing it enters those that are ready in Gymnasium's registry: `catena/CartPole-v0`, `catena/DoublePendulum-v0`, `catena/Arm-v0`,
`catena/FiveBar-v0` and `catena/Stewart-v0`.

>>> import gymnasium
>>> envs = gymnasium.make_vec("catena/CartPole-v0", num_envs=3)
>>> envs.reset(seed=0)[0].shape
(3, 4)
"""

from catena.errors import optional_package

optional_package("gymnasium", "environments need Gymnasium", 'pip install "catena[gym]"')

from catena.environments.draws import Draws  # noqa: E402
from catena.environments.ready import arm, cart_pole, double_pendulum, five_bar, stewart  # noqa: E402
from catena.environments.registered import register  # noqa: E402
from catena.environments.single import Environment  # noqa: E402
from catena.environments.task import Task  # noqa: E402
from catena.environments.vector import VectorEnvironment  # noqa: E402

__all__ = ["Draws", "Environment", "Task", "VectorEnvironment", "arm", "cart_pole", "double_pendulum", "five_bar", "stewart"]

register()
