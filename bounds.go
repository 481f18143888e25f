package tipstaff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Names of bounds, as documents spell them.
const (
	BoundIterations = "iterations"
	BoundModelCalls = "model_calls"
	BoundToolCalls  = "tool_calls"
	BoundAgentHops  = "agent_hops"
	BoundTokens     = "tokens"
	BoundCostUSD    = "cost_usd"
	BoundWallTime   = "wall_time"
)

// BoundStages is how many rounds a pipeline may have. No ledger holds a run to it: the
// pipeline counts them itself. Neither plans nor manifests know it, so it is not among
// [BoundNames]; the bounds of a run may have it.
const BoundStages = "stages"

// BoundNames are all of them that any run may be given, sorted.
func BoundNames() []string {
	return []string{BoundAgentHops, BoundCostUSD, BoundIterations, BoundModelCalls, BoundTokens, BoundToolCalls, BoundWallTime}
}

// boundFields are the fields of pipelines that set a bound, by the bound's name.
var boundFields = map[string]string{
	BoundIterations: "max_iterations", BoundModelCalls: "max_llm_calls", BoundAgentHops: "max_agent_hops", BoundToolCalls: "max_tool_calls",
	BoundTokens: "max_tokens", BoundCostUSD: "max_cost_usd", BoundWallTime: "max_wall_seconds", BoundStages: "max_stages",
}

// BoundField is the field of a pipeline that sets a bound. It is what the bound is called
// wherever pipelines are spoken of; their journals have the bound's own name.
func BoundField(bound string) string { return cmp.Or(boundFields[bound], bound) }

// Bounds are what a run may consume, by name, in the units of the ledger: whole
// numbers, cost_usd in 10⁻⁹ USD, wall_time in milliseconds. A name that is absent
// has no limit.
//
// In JSON and in documents they stand as people write them: cost_usd is a
// decimal string ("0.50"), wall_time a duration ("10m"), the rest whole numbers.
type Bounds map[string]int64

// DefaultBounds are those of a plan or a turn where neither the program nor the
// manifest sets any.
func DefaultBounds() Bounds {
	return Bounds{
		BoundIterations: 3,
		BoundModelCalls: 50,
		BoundToolCalls:  200,
		BoundAgentHops:  50,
		BoundTokens:     1_000_000,
		BoundCostUSD:    5 * nanosPerUnit,
		BoundWallTime:   time.Hour.Milliseconds(),
	}
}

// EffectiveBounds is what a run gets: the least of what manifest, program and
// flags say, by name, and the default where neither manifest nor program says
// anything. Flags only tighten. Any of them may be nil.
func EffectiveBounds(manifest, program, flags Bounds) Bounds {
	said := Min(manifest, program)
	for name, limit := range DefaultBounds() {
		if _, ok := said[name]; !ok {
			said[name] = limit
		}
	}
	return Min(said, flags)
}

// Min is the least limit of each name that has one anywhere.
func Min(all ...Bounds) Bounds {
	least := Bounds{}
	for _, b := range all {
		for name, limit := range b {
			if old, ok := least[name]; !ok || limit < old {
				least[name] = limit
			}
		}
	}
	return least
}

// Above lists, sorted, the bounds in which b goes beyond a ceiling: a program
// above its manifest is invalid (bounds_ceiling). What b leaves open it inherits
// and is not above.
func (b Bounds) Above(ceiling Bounds) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if most, ok := ceiling[name]; ok && b[name] > most {
			names = append(names, name)
		}
	}
	return names
}

// BoundError is one bound that cannot be read. Code is that of a problem in a
// document: field_unknown or range.
type BoundError struct {
	Name, Code, Message string
}

func (e *BoundError) Error() string { return e.Name + ": " + e.Message }

// ParseBound reads one value as a document gives it, a [json.Number] or a string, in
// the units of the ledger. Its error is a [*BoundError].
func ParseBound(name string, value any) (int64, error) {
	if name == BoundStages {
		return 0, unknownBound(name)
	}
	return ParseRunBound(name, value)
}

// ParseRaise reads a bound that a fork sets anew, by the name that documents give it.
func ParseRaise(field, value string) (int64, error) {
	if field == BoundField(BoundCostUSD) {
		return ParseBound(BoundCostUSD, value)
	}
	return strconv.ParseInt(value, 10, 64)
}

// ParseRunBound reads one value of the bounds of a run, which may have [BoundStages]
// too.
func ParseRunBound(name string, value any) (n int64, err error) {
	switch name {
	case BoundCostUSD:
		n, err = parseCost(value)
	case BoundWallTime:
		n, err = parseWall(value)
	case BoundIterations, BoundModelCalls, BoundToolCalls, BoundAgentHops, BoundTokens, BoundStages:
		n, err = parseCount(value)
	default:
		return 0, unknownBound(name)
	}
	if err != nil {
		return 0, &BoundError{name, "range", err.Error()}
	}
	return n, nil
}

func unknownBound(name string) error {
	return &BoundError{name, "field_unknown", "there is no such bound; there are " + strings.Join(BoundNames(), ", ")}
}

func parseCount(value any) (int64, error) {
	literal, _ := value.(json.Number)
	n, err := strconv.ParseInt(string(literal), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s is not a whole number from 0", show(value))
	}
	return n, nil
}

func parseWall(value any) (int64, error) {
	text, ok := value.(string)
	if !ok {
		return 0, fmt.Errorf("%s is not a duration like 90s, 10m or 1h30m", show(value))
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration like 90s, 10m or 1h30m", text)
	}
	if d%time.Millisecond != 0 {
		return 0, fmt.Errorf("%q is finer than a millisecond", text)
	}
	return d.Milliseconds(), nil
}

// Amounts of money are decimal: they are never a float on their way.
const (
	maxDecimals  = 9
	nanosPerUnit = 1_000_000_000
)

func parseCost(value any) (int64, error) {
	text, ok := value.(string)
	if !ok {
		return 0, fmt.Errorf("%s must be a decimal in quotes, like %q", show(value), "5.00")
	}
	whole, fraction, dot := strings.Cut(text, ".")
	if !digits(whole) || dot && !digits(fraction) || len(whole) > 1 && whole[0] == '0' {
		return 0, fmt.Errorf("%q is not a decimal like %q", text, "5.00")
	}
	if len(fraction) > maxDecimals {
		return 0, fmt.Errorf("%q has more than %d decimals", text, maxDecimals)
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", maxDecimals-len(fraction)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is more than can be counted", text)
	}
	return n, nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func show(value any) string {
	if s, ok := value.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(value)
}

// Left is what may still be used of a bound.
func (b BoundStatus) Left() int64 { return max(0, b.Limit-b.Used-b.Held-b.Reserved) }

// FormatBound is an amount of a bound as people read it, and as [ParseBound]
// reads it again.
func FormatBound(name string, amount int64) string { return flow.FormatAmount(name, amount) }

// AmountText is an amount of a bound for people, money with its sign.
func AmountText(name string, amount int64) string { return flow.AmountText(name, amount) }

// MarshalJSON writes bounds as documents do.
func (b Bounds) MarshalJSON() ([]byte, error) {
	doc := make(map[string]any, len(b))
	for name, limit := range b {
		switch name {
		case BoundCostUSD, BoundWallTime:
			doc[name] = FormatBound(name, limit)
		default:
			doc[name] = limit
		}
	}
	return json.Marshal(doc)
}

// UnmarshalJSON reads what documents write. Its errors are [*BoundError]s, joined, in
// the order of the names.
func (b *Bounds) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a float64 could not hold every int64
	var doc map[string]any
	if err := d.Decode(&doc); err != nil {
		return err
	}
	parsed := make(Bounds, len(doc))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		limit, err := ParseRunBound(name, doc[name])
		parsed[name], errs = limit, append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	*b = parsed
	return nil
}

// BoundStatus is one bound of a run, in the units of the ledger.
type BoundStatus struct {
	Limit    int64
	Limited  bool // false: it is only counted
	Used     int64
	Lost     int64 // of what is used, what was reserved for attempts that told nothing of it
	Held     int64 // beside it, for attempts that were lost: nobody knows what they used
	Reserved int64 // by attempts in flight
}

// BoundsStatus are the bounds of a run, by name. In JSON their amounts stand as people
// read them: decimal strings for cost_usd, durations for wall_time, whole numbers for
// the rest.
type BoundsStatus map[string]BoundStatus

// below are the limits that are lower than others. A limit that merely repeats the usual one
// is not among them: whoever says a bound of cost must know the price of the model.
func (b BoundsStatus) below(usual Bounds) Bounds {
	lower := Bounds{}
	for name, s := range b {
		if most, ok := usual[name]; s.Limited && (!ok || s.Limit < most) {
			lower[name] = s.Limit
		}
	}
	return lower
}

type boundText struct {
	Limit    string `json:"limit,omitempty"` // absent: only counted
	Used     string `json:"used"`
	Lost     string `json:"lost,omitempty"` // of what is used
	Held     string `json:"held,omitempty"` // beside it, for attempts that were lost
	Reserved string `json:"reserved"`
}

// MarshalJSON writes the amounts as texts.
func (b BoundsStatus) MarshalJSON() ([]byte, error) {
	shown := make(map[string]boundText, len(b))
	for name, s := range b {
		shown[name] = s.text(name)
	}
	return json.Marshal(shown)
}

// text is the bound of a name as people read it.
func (b BoundStatus) text(name string) boundText {
	text := boundText{Used: FormatBound(name, b.Used), Reserved: FormatBound(name, b.Reserved)}
	if b.Lost > 0 {
		text.Lost = FormatBound(name, b.Lost)
	}
	if b.Held > 0 {
		text.Held = FormatBound(name, b.Held)
	}
	if b.Limited {
		text.Limit = FormatBound(name, b.Limit)
	}
	return text
}

// UnmarshalJSON reads what MarshalJSON writes.
func (b *BoundsStatus) UnmarshalJSON(data []byte) error {
	var shown map[string]boundText
	if err := json.Unmarshal(data, &shown); err != nil {
		return err
	}
	*b = make(BoundsStatus, len(shown))
	for name, text := range shown {
		s := BoundStatus{Limited: text.Limit != ""}
		for _, part := range []struct {
			to   *int64
			text string
		}{{&s.Limit, text.Limit}, {&s.Used, text.Used}, {&s.Reserved, text.Reserved}, {&s.Lost, text.Lost}, {&s.Held, text.Held}} {
			var err error
			switch {
			case part.text == "":
			case name == BoundCostUSD, name == BoundWallTime:
				*part.to, err = ParseBound(name, part.text)
			default:
				*part.to, err = strconv.ParseInt(part.text, 10, 64)
			}
			if err != nil {
				return err
			}
		}
		(*b)[name] = s
	}
	return nil
}
