#!/usr/bin/env bash
# Checks that every relative link in the checkout's Markdown files leads to an existing file.
CHECK=docs_links
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# broken_links FILE...: prints `file: link` for each broken link.
broken_links() {
    local file link
    for file in "$@"; do
        # Fenced code is not prose: `a[i](x)` in it is not a link.
        awk '/^ *(```|~~~)/ { code = !code; next } !code { gsub(/`[^`]*`/, ""); print }' "$file" |
            { grep -oE '\]\([^) ]+' || true; } | sed 's/^](//' |
            while read -r link; do
                case $link in
                *://* | mailto:* | \#*) continue ;;
                esac
                link=${link%%#*}
                [[ -e $(dirname "$file")/$link ]] || printf '%s: %s\n' "$file" "$link"
            done
    done
}

mapfile -t files < <(find . \( -name 'target*' -o -name .git \) -prune -o -name '*.md' -print | sort)
((${#files[@]} > 0)) || fail "no Markdown file found"
broken=$(broken_links "${files[@]}")
[[ -z $broken ]] || fail "broken links:"$'\n'"$broken"
note "${#files[@]} files"

printf 'a [link](that/leads/nowhere.md)\n' >"$LOGS/planted.md"
[[ -n $(broken_links "$LOGS/planted.md") ]] || fail "the planted broken link was NOT reported"
note "negative control: the planted broken link was reported"
