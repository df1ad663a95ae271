"Numbers from records. Called, this folder is `app.evaluate.evaluate`: both are named `mtrag_nb.evaluate`."

import sys
from types import ModuleType


class _Callable(ModuleType):
    def __call__(self, *args, **how):
        from mtrag_nb.app.evaluate import evaluate

        return evaluate(*args, **how)


sys.modules[__name__].__class__ = _Callable
