"""What the proxy logs in with where it relays requests to other brokers."""

from notleader.faults.schema import Problem
from notleader.proxy.config.settings import ConfigError, Settings


def relay_password(settings: Settings) -> str | None:
    """The password of `--relay-sasl-username`, None without a mechanism. Raises ConfigError."""
    file = settings.relay_sasl_password_file
    if settings.relay_sasl_mechanism is None:
        return None
    if file is None or not settings.relay_sasl_username:
        missing = "relay_sasl_password_file" if file is None else "relay_sasl_username"
        raise ConfigError([Problem(missing, "is needed with relay_sasl_mechanism")])
    try:
        return file.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise ConfigError([Problem("relay_sasl_password_file", f"{file}: {reason}")]) from error
