#!/bin/sh
# sanitized.sh FOLDER SANITIZER PYTHON: makes FOLDER/python and FOLDER/pqr, which run the package of
# FOLDER/package under a sanitizer (asan or tsan), with the libraries of the environment in .venv.
#
# A sanitizer has to be loaded before anything else. Only these two programs load it: whatever they
# start (curl, a shell, nginx) runs as usual, and what LD_PRELOAD already names is loaded after it.
set -eu
folder=$1 sanitizer=$2 python=$3
home=$(cd "$(dirname "$0")/.." && pwd)
site=$(echo "$home"/.venv/lib/python3*/site-packages)
preload=$(${CXX:-c++} -print-file-name="lib$sanitizer.so")\ $(${CXX:-c++} -print-file-name=libstdc++.so)
case $sanitizer in
asan) start='' options='ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1' ;;
# TSan needs the memory layout of a process without randomized addresses.
tsan) start='setarch -R' options="TSAN_OPTIONS='log_path=$folder/report exitcode=66'" ;;
esac

# The interpreter is the one outside of .venv, whose editable install would bring a core of its own.
cat > "$folder/python" << END
#!/bin/sh
exec $start env $options PYTHONMALLOC=malloc PQR_COMMAND='$folder/pqr' PQR_PRELOAD="\${LD_PRELOAD-}" \\
  PYTHONPATH="$folder/package:$site\${PYTHONPATH:+:\$PYTHONPATH}" \\
  LD_PRELOAD="$preload\${LD_PRELOAD:+ \$LD_PRELOAD}" $python "\$@"
END

cat > "$folder/pqr" << END
#!$folder/python
import sys

from pqrlearn.cli import main

sys.exit(main())
END

cat > "$folder/package/sitecustomize.py" << END
import os
import sys

sys.executable = "$folder/python"
os.environ["LD_PRELOAD"] = os.environ.pop("PQR_PRELOAD", "")
END
chmod +x "$folder/python" "$folder/pqr"
