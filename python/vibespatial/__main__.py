"""python -m vibespatial: info, warm, demo."""

from ._commands import main

raise SystemExit(main())
