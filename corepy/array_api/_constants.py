"""Constants.

https://data-apis.org/array-api/2025.12/API_specification/constants.html
"""

import math
from typing import Final

e: Final = math.e
inf: Final = math.inf
nan: Final = math.nan
newaxis: Final = None
pi: Final = math.pi
