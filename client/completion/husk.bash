# Completion of husk(1) for bash: verbs, options, sandboxes of the running service, files here.
# Loaded by bash-completion from share/bash-completion/completions, or by hand: . husk.bash

_husk_verbs='run create ls info exec sh repl install packages put get files rm extend interrupt restart close health mcp help'
_husk_common='--json --quiet --url --api-key --help'
_husk_sandbox='--name --ttl --idle --memory --disk --cpus --pids --auto-install'

# The options of a verb.
_husk_options() {
    case $1 in
    run) echo "$_husk_common $_husk_sandbox --code --output --timeout --env --install --upload --get --keep" ;;
    create) echo "$_husk_common $_husk_sandbox --install --env" ;;
    exec) echo "$_husk_common --code --output --timeout --env --auto-install" ;;
    repl) echo "$_husk_common $_husk_sandbox --keep --output --images --timeout" ;;
    mcp) echo "$_husk_common --start --root --api-key-file" ;;
    sh) echo "$_husk_common --cwd --timeout --env --no-stdin" ;;
    install) echo "$_husk_common --requirements --upgrade --pre" ;;
    put) echo "$_husk_common --to --exclude" ;;
    get) echo "$_husk_common --output" ;;
    files) echo "$_husk_common --one-level" ;;
    close) echo "$_husk_common --all --yes" ;;
    '') echo "$_husk_common --version" ;;
    *) echo "$_husk_common" ;;
    esac
}

# Names of sandboxes, and ids of those that have none. A service that is not there says nothing.
_husk_sandboxes() {
    husk ls --json 2>/dev/null | grep -Eo '"(sandbox_id|name)":("[^"]*"|null)' | sed -E 's/"([a-z_]*)":"?([^"]*)"?/\1 \2/' |
        while read -r key value; do
            if [ "$key" = sandbox_id ]; then
                id=$value
            elif [ "$value" = null ] || [ -z "$value" ]; then
                echo "$id"
            else
                echo "$value"
            fi
        done
}

# Does this option of a verb take a value, and of what kind?
_husk_value() {
    case $2 in
    -n) [ "$1" = sh ] || echo other ;;
    --output | -o | --upload | -u | --requirements | -r | --root | --api-key-file) echo file ;;
    --env | -e) echo variable ;;
    --url | --api-key | --code | -c | --timeout | -t | --install | -i | --get | -g | --cwd | -C | --to | --exclude | -x | --name | --ttl | --idle | --memory | -m | --disk | --cpus | --pids | --images)
        echo other
        ;;
    esac
}

_husk_reply() {
    mapfile -t COMPREPLY < <(compgen "${@:1:$#-1}" -- "${!#}")
}

# Files, so that readline adds slashes and quotes.
_husk_files() {
    compopt -o filenames 2>/dev/null
    _husk_reply -f "$1"
}

_husk() {
    local current=${COMP_WORDS[COMP_CWORD]} verb='' words=0 at=1 word
    COMPREPLY=()
    # What has been said: the verb, and how many words after it.
    while [ "$at" -lt "$COMP_CWORD" ]; do
        word=${COMP_WORDS[at]}
        if [ -n "$(_husk_value "$verb" "$word")" ]; then
            at=$((at + 1))
        elif [[ $word != -* ]]; then
            if [ -z "$verb" ]; then verb=$word; else words=$((words + 1)); fi
        fi
        at=$((at + 1))
    done
    if [ "$at" -gt "$COMP_CWORD" ]; then
        case $(_husk_value "$verb" "${COMP_WORDS[COMP_CWORD - 1]}") in
        file) _husk_files "$current" ;;
        variable) _husk_reply -v "$current" ;;
        esac
        return
    fi
    if [[ $current == -* ]]; then
        _husk_reply -W "$(_husk_options "$verb")" "$current"
        return
    fi
    case $verb:$words in
    :0 | help:0) _husk_reply -W "$_husk_verbs" "$current" ;;
    run:*) _husk_files "$current" ;;
    create:* | ls:* | health:* | mcp:* | help:*) ;;
    close:* | *:0) _husk_reply -W "$(_husk_sandboxes)" "$current" ;;
    exec:* | put:*) _husk_files "$current" ;;
    esac
}

complete -F _husk husk
