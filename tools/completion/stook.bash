# SPDX-License-Identifier: MIT
# Completion of stook's command line for bash.  Made by scripts/commands.py from the tables of options: change these.
_stook()
{
    local now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options=
    if ((COMP_CWORD == 1)) || { [ "$command" = help ] && ((COMP_CWORD == 2)); }; then
        COMPREPLY=($(compgen -W "run list top caches stat leaks why whatis walk profile report compare export info plan lab help --help --version" -- "$now"))
        return
    fi
    case $command in
    run) options="--report --report-all --report-format --report-file --leaks --mode --reserve --limit --debug --harden --trace --trace-limit --help" ;;
    list) options="--json -j --help" ;;
    top) options="--delay -d --count -n --sort -s --help" ;;
    caches) options="--json -j --all -a --sort -s --core --exe --help" ;;
    stat) options="--core --exe --help" ;;
    leaks) options="--json -j --all -a --stop -s --wait -w --fail --wrappers --core --exe --help" ;;
    why) options="--json -j --objects -o --wrappers --core --exe --help" ;;
    whatis) options="--json -j --core --exe --help" ;;
    walk) options="--json -j --free -f --all -a --core --exe --help" ;;
    profile) options="--by --top --json --pprof --collapsed --save --wrappers --signal --help" ;;
    report) options="--html --core --exe --help" ;;
    compare) options="--mallocs --rounds -n --timeout --server --load --percentile --json --svg --help" ;;
    export) options="--listen --host --pid --max-processes --max-caches --max-groups --no-group-names --help" ;;
    info) options="--json --settings --help" ;;
    plan) options="--size --align --columns --ctor --typesafe --poison --page-size --order --library --outside --explain --json --slabinfo --traces --classes --help" ;;
    lab) options="--topology --queues --depth --batch --kept --pairing --completers --operations --capacity --size --align --order --design --seed --threads --json --refill --race --time --costs --cpus --designs --order-out --cores --slice --map --gap --help" ;;
    esac
    case "$command $before" in
    "run --report-format" | "run --report-file" | "run --trace" | "caches --core" | "caches --exe" | "stat --core" | "stat --exe" | "leaks --wrappers" | "leaks --core" | "leaks --exe" | "why --wrappers" | "why --core" | "why --exe" | "whatis --core" | "whatis --exe" | "walk --core" | "walk --exe" | "profile --pprof" | "profile --collapsed" | "profile --save" | "profile --wrappers" | "report --html" | "report --core" | "report --exe" | "compare --mallocs" | "compare --server" | "compare --load" | "compare --percentile" | "compare --json" | "compare --svg" | "plan --classes" | "lab --order-out")
        COMPREPLY=($(compgen -f -- "$now"))
        return
        ;;
    "run --mode" | "run --reserve" | "run --limit" | "run --debug" | "run --harden" | "run --trace-limit" | "top --delay" | "top -d" | "top --count" | "top -n" | "leaks --wait" | "leaks -w" | "profile --top" | "profile --signal" | "compare --rounds" | "compare -n" | "compare --timeout" | "export --listen" | "export --host" | "export --pid" | "export --max-processes" | "export --max-caches" | "export --max-groups" | "plan --size" | "plan --align" | "plan --columns" | "plan --page-size" | "plan --order" | "lab --topology" | "lab --queues" | "lab --depth" | "lab --batch" | "lab --kept" | "lab --completers" | "lab --operations" | "lab --capacity" | "lab --size" | "lab --align" | "lab --order" | "lab --design" | "lab --seed" | "lab --costs" | "lab --cpus" | "lab --designs" | "lab --cores" | "lab --slice" | "lab --gap")
        COMPREPLY=($(compgen -W "" -- "$now"))
        return
        ;;
    "top --sort" | "top -s")
        COMPREPLY=($(compgen -W "resident in-use cached wasted growth rate objects name" -- "$now"))
        return
        ;;
    "caches --sort" | "caches -s")
        COMPREPLY=($(compgen -W "resident in-use cached wasted peak objects name" -- "$now"))
        return
        ;;
    "profile --by")
        COMPREPLY=($(compgen -W "live total calls growth" -- "$now"))
        return
        ;;
    "lab --pairing")
        COMPREPLY=($(compgen -W "adjacent same cross-node all-to-one" -- "$now"))
        return
        ;;
    "lab --map")
        COMPREPLY=($(compgen -W "thread cpu" -- "$now"))
        return
        ;;
    esac
    case $command in
    top|caches|stat|leaks|why|whatis|walk|report) options+=" $(stook list 2>/dev/null | awk '$1 ~ /^[0-9]+$/ { print $1, $2 }')" ;;
    esac
    case $now,$command in
    -*) COMPREPLY=($(compgen -W "$options" -- "$now")) ;;
    *,run|*,profile) COMPREPLY=($(compgen -cf -W "$options" -- "$now")) ;;
    *) COMPREPLY=($(compgen -f -W "$options" -- "$now")) ;;
    esac
}
complete -o filenames -F _stook stook
