# From the runs to Markdown: what was measured, and the bars.
#
# usage: awk [-v objects=1] -f report.awk bars.txt results.tsv
#
# With `objects` the results' bytes are of the objects that were made.

function add(key, value) { count[key]++; values[key, count[key]] = value + 0 }

# Sorts what was added under a key, and sets low, middle and high.
function spread(key,    i, j, n, v, at) {
    n = count[key]
    for (i = 1; i <= n; i++) {
        v = values[key, i]
        for (j = i - 1; j >= 1 && at[j] > v; j--) at[j + 1] = at[j]
        at[j + 1] = v
    }
    low = at[1]; high = at[n]
    middle = (at[int((n + 1) / 2)] + at[int((n + 2) / 2)]) / 2
}

function shown(key, format) {
    spread(key)
    if (count[key] == 1) return sprintf(format, middle)
    return sprintf(format " (" format ".." format ")", middle, low, high)
}

# Fills a key with the ratios of two ways, round by round.
function pair(key, of, row, above, below,    run) {
    for (run = 1; run <= runs[row]; run++)
        if (((of, row, above, run) in got) && ((of, row, below, run) in got) && got[of, row, below, run] > 0)
            add(key, got[of, row, above, run] / got[of, row, below, run])
}

function meets(value, operator, bar) {
    if (operator == ">=") return value >= bar
    if (operator == "<=") return value <= bar
    if (operator == ">") return value > bar
    return value < bar
}

function judge(row, of, what, operator, bar,    key, ways, name, format, parts, run) {
    key = "bar" SUBSEP row SUBSEP of SUBSEP what
    name = what
    format = "%.2f"
    if (of == "rss") {
        if (!((row, what) in seen)) return
        for (run = 0; run <= runs[row]; run++)
            if (("rss", row, what, run) in got) add(key, got["rss", row, what, run])
        name = what ", peak RSS, MiB"
        format = "%.0f"
    } else if (of == "line") {
        for (run = 1; run <= runs[row]; run++)
            if (("wall", row, what, run) in got)
                # 100 Mbit/s; 1448 bytes of content in a packet of 1500.
                add(key, got["bytes", row, what, run] / (got["wall", row, what, run] * 100e6 / 8 * 1448 / 1500))
        name = what ", share of the line"
    } else if (of == "seconds") {
        for (run = 0; run <= runs[row]; run++)
            if (("wall", row, what, run) in got) add(key, got["wall", row, what, run])
        name = what ", seconds"
    } else {
        split(what, ways, "/")
        pair(key, of, row, ways[1], ways[2])
        name = what ", " (of == "cpu" ? "CPU" : of == "bytes" ? "size" : "time")
        if (of == "bytes") format = "%.3f"
    }
    if (!count[key]) { lines[++judged] = "| " row " | " name " | not measured | " operator " " bar " | |"; return }
    # The highest memory counts, not the median.
    parts = shown(key, format)
    if (of == "rss") { middle = high; parts = sprintf(format, high) }
    lines[++judged] = "| " row " | " name " | " parts " | " operator " " bar " | " (meets(middle, operator, bar) ? "met" : "**not met**") " |"
}

FNR == NR {
    if (NF && $1 !~ /^#/) { bars++; bar_row[bars] = $1; bar_of[bars] = $2; bar_what[bars] = $3; bar_op[bars] = $4; bar_value[bars] = $5 }
    next
}
{
    row = $1; way = $2; run = $3
    got["wall", row, way, run] = $4
    got["cpu", row, way, run] = $5
    got["rss", row, way, run] = $6 / 1024
    got["bytes", row, way, run] = $7
    if (!(row in runs)) { order[++rows] = row; runs[row] = 0 }
    if (run > runs[row]) runs[row] = run
    if (!((row, way) in seen)) { seen[row, way] = 1; row_ways[row] = row_ways[row] " " way }
    if (run > 0) { add("wall" SUBSEP row SUBSEP way, $4); add("cpu" SUBSEP row SUBSEP way, $5) }
    if ($6 / 1024 > peak[row, way]) peak[row, way] = $6 / 1024
}
END {
    print "| row | way | time, s | CPU, s | peak RSS, MiB |" (objects ? " object, MiB |" : "") " time ÷ hcs's |"
    print "|---|---|---|---|---|---|" (objects ? "---|" : "")
    for (r = 1; r <= rows; r++) {
        row = order[r]
        n = split(row_ways[row], ways, " ")
        for (w = 1; w <= n; w++) {
            way = ways[w]
            key = row SUBSEP way
            if (!count["wall" SUBSEP key]) continue
            ratio = ""
            if (way != "hcs") {
                pair("ratio" SUBSEP key, "wall", row, way, "hcs")
                if (count["ratio" SUBSEP key]) ratio = shown("ratio" SUBSEP key, "%.2f")
            }
            object = objects ? sprintf(" %.1f |", got["bytes", row, way, runs[row]] / 1048576) : ""
            printf "| %s | %s | %s | %s | %.0f |%s %s |\n", row, way, shown("wall" SUBSEP key, "%.2f"), shown("cpu" SUBSEP key, "%.2f"), peak[row, way], object, ratio
        }
    }
    for (b = 1; b <= bars; b++)
        for (r = 1; r <= rows; r++)
            if (bar_row[b] == order[r] || bar_row[b] == "*")
                judge(order[r], bar_of[b], bar_what[b], bar_op[b], bar_value[b])
    print ""
    print "| row | what | measured | bar | |"
    print "|---|---|---|---|---|"
    for (b = 1; b <= judged; b++) print lines[b]
}
