<?php
/* Required by load.php. */
\App\burn($n);
