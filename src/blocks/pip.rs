//! `pip install` without its progress, which is noise to whoever reads the output.

/// The code with `-qqq` in each line that begins with a call of `pip install` and has none.
pub(super) fn silenced(code: &str, is_python: bool) -> String {
    let lines: Vec<String> = code.split('\n').map(|line| silenced_line(line, is_python)).collect();
    lines.join("\n")
}

fn silenced_line(line: &str, is_python: bool) -> String {
    let call = if is_python {
        line.strip_prefix(['!', '%']).map(|escaped| escaped.strip_prefix(' ').unwrap_or(escaped))
    } else {
        Some(line)
    };
    let arguments = call.and_then(|call| call.strip_prefix("pip install"));
    match arguments {
        Some(arguments)
            if (arguments.is_empty() || arguments.starts_with([' ', '\t', '\r'])) && !line.contains("-qqq") =>
        {
            let call = line.len() - arguments.len();
            format!("{} -qqq{arguments}", line.get(..call).unwrap_or_default())
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pip_is_silenced_once() {
        let shell =
            "pip install a\n  pip install b\npip install -qqq c\npip installer\necho pip install\npip install\r";
        let silenced_shell = "pip install -qqq a\n  pip install b\npip install -qqq c\npip installer\necho pip install\npip install -qqq\r";
        assert_eq!(silenced(shell, false), silenced_shell);
        assert_eq!(silenced(silenced_shell, false), silenced_shell);
        assert_eq!(
            silenced("! pip install a\n!pip install b\n%pip install c\npip install d\nx = '! pip install e'\n", true),
            "! pip install -qqq a\n!pip install -qqq b\n%pip install -qqq c\npip install d\nx = '! pip install e'\n"
        );
    }
}
