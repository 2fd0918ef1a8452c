"""python -m vibespatial: info, warm, demo, timeline."""

from ._commands import main

raise SystemExit(main())
