from tests.cli.conftest import quorate as quorate
