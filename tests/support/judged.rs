//! Code that nobody has named: the kernel and the host's parser say the same of it.

pub(crate) const PYTHON: &[&str] = &[
    "",
    "x = 1",
    "# a comment",
    "for i in range(3):\n    print(i)",
    "def f(x):\n\n    return x\n\nf(1)",
    "async def f():\n    await g()",
    "await g()",
    "match x:\n    case [a, *_]:\n        pass",
    "f'{x!r:>{10}} {y}'",
    "!pip install rich",
    "%matplotlib inline\nimport numpy as np",
    "%%time\nx = 1",
    "df.head?",
    "if x:\n\tpass",
    "größe = '☃'",
    "lambda: (yield)",
    "x = 1;",
    "print('unbalanced (((')",
];

pub(crate) const NOT_PYTHON: &[&str] = &[
    "Dear reader,",
    "def f(x):",
    "def f(x):\n    return (x",
    "x = '",
    "for (i = 0; i < 3; i++) {}",
    "print 'two'",
    "x = = 1",
    "SELECT * FROM t;",
    "if true; then echo; fi",
    "<p>text</p>",
    "  x = 1\ny = 2",
    "(((((",
    "fn main() {}",
    "a b c",
];
