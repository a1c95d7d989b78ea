"""``completion``: a script that makes a shell complete commands and options."""

from __future__ import annotations

import argparse

from delegate.cli import build_parser
from delegate.cli.command import PROGRAM, Command, answer


def _words(whole: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Every command with its options, read from the parser itself."""
    words: dict[str, list[str]] = {}
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, parser in action.choices.items():
                options = [o for a in parser._actions for o in a.option_strings if o[:2] == "--"]
                words[name] = sorted(options)
    return words


def _bash(words: dict[str, list[str]]) -> str:
    cases = "\n".join(f'    {name}) words="{" ".join(o)}" ;;' for name, o in words.items())
    return f"""_rk3588_delegate() {{
  local words current="${{COMP_WORDS[COMP_CWORD]}}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  if [ "${{current#-}}" != "$current" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _rk3588_delegate {PROGRAM}
"""


def _fish(words: dict[str, list[str]]) -> str:
    lines = [f"complete -c {PROGRAM} -n __fish_use_subcommand -f -a {name}" for name in words]
    for name, options in words.items():
        for option in options:
            seen = f"'__fish_seen_subcommand_from {name}'"
            lines.append(f"complete -c {PROGRAM} -n {seen} -l {option.removeprefix('--')}")
    return "\n".join(lines) + "\n"


def _run(arguments: argparse.Namespace) -> int:
    words = _words(build_parser())
    if arguments.shell == "fish":
        script = _fish(words)
    elif arguments.shell == "zsh":
        script = "autoload -U +X bashcompinit && bashcompinit\n" + _bash(words)
    else:
        script = _bash(words)
    answer(arguments, {"script": script}, script.removesuffix("\n"))
    return 0


COMMAND = Command(
    _run,
    """
completion: Print a script that completes commands and options in a shell.

shell bash|zsh|fish  prints the script for this shell

completion bash > ~/.local/share/bash-completion/completions/rk3588-delegate
""",
)
