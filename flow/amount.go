package flow

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// AmountText is an amount of a bound for people: $0.50, 10m, 3.
func AmountText(bound string, n int64) string {
	if bound == CostUSD {
		return "$" + FormatAmount(bound, n)
	}
	return FormatAmount(bound, n)
}

// FormatAmount is an amount of a bound as documents write it: 0.50, 10m, 3.
func FormatAmount(bound string, n int64) string {
	switch bound {
	case CostUSD:
		return formatDollars(n)
	case WallTime:
		return formatWall(n)
	}
	return strconv.FormatInt(n, 10)
}

// formatDollars writes at least two decimals.
func formatDollars(nanos int64) string {
	text := fmt.Sprintf("%d.%09d", nanos/1e9, nanos%1e9)
	cents := len(text) - 7
	return text[:cents] + strings.TrimRight(text[cents:], "0")
}

// formatWall leaves out the zero parts that Duration.String writes: 1h, not
// 1h0m0s.
func formatWall(ms int64) string {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		ms = math.MaxInt64 / int64(time.Millisecond)
	}
	text := (time.Duration(ms) * time.Millisecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
