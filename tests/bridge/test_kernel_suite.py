"""Jupyter's own test suite for kernels, on ours."""

from __future__ import annotations

import jupyter_kernel_test

from support import Bridge


class TestLauncher(jupyter_kernel_test.KernelTests):
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('oops', file=sys.stderr)"
    completion_samples = ({"text": "zi", "matches": {"zip"}},)
    complete_code_samples = ("1", "print('hello')", "def f(x):\n  return x*2\n\n\n")
    incomplete_code_samples = ("print('''hello", "def f(x):\n  x*2")
    invalid_code_samples = ("import = 7q",)
    code_page_something = "zip?"
    code_generate_error = "raise ValueError"
    code_execute_result = ({"code": "1+2+3", "result": "6"},)
    code_display_data = (
        {"code": "from IPython.display import HTML, display; display(HTML('<b>x</b>'))", "mime": "text/html"},
    )
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"

    @classmethod
    def setUpClass(cls) -> None:
        cls.bridge = Bridge()
        cls.kc = cls.bridge.client(cls.bridge.controller().request("start"))

    @classmethod
    def tearDownClass(cls) -> None:
        cls.bridge.close()
