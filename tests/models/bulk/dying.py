"""Work that ends its process."""

import os
import signal


def dying(**order):
    os.kill(os.getpid(), signal.SIGKILL)
