package file

import (
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
)

// UnknownWindow is the context window of a model that nobody has described.
const UnknownWindow = 32_768

// Table says what models can do and what they cost. It is not changed once made.
type Table struct {
	Date   string           // when it was written
	models map[string]entry // by id, or by prefix with a * at its end
}

// entry describes a model. What it leaves out is unknown.
type entry struct {
	ContextWindow int     `yaml:"context_window"`
	MaxOutput     int     `yaml:"max_output"`
	Images        *bool   `yaml:"images"`
	Structured    *bool   `yaml:"structured_output"`
	Sampling      *bool   `yaml:"sampling"` // false: it refuses temperature and top_p
	Price         *prices `yaml:"price"`
}

// prices are USD per million tokens, as decimals.
type prices struct {
	Input        string `yaml:"input"`
	Output       string `yaml:"output"`
	CacheRead    string `yaml:"cache_read"`     // "": as input
	CacheWrite   string `yaml:"cache_write"`    // "": as input
	CacheWrite1h string `yaml:"cache_write_1h"` // "": as cache_write
}

// ParseTable reads a table. Its error lists every problem with its place.
func ParseTable(name string, src []byte) (*Table, error) {
	var file struct {
		Version int              `yaml:"version"`
		Date    string           `yaml:"date"`
		Models  map[string]entry `yaml:"models"`
	}
	d := &document{name: name, what: "the table of models"}
	if d.decode(src, &file); len(d.problems) > 0 {
		return nil, d.err()
	}
	if file.Version != 1 {
		d.report(problemRange, "$.version", "version is %d: this version of Tipstaff reads 1", file.Version)
	}
	for _, id := range slices.Sorted(maps.Keys(file.Models)) {
		file.Models[id].check(id, func(field, format string, args ...any) {
			d.report(problemRange, "$.models.'"+id+"'"+field, "models."+id+strings.ReplaceAll(field, "$", "")+": "+format, args...)
		})
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return &Table{Date: file.Date, models: file.Models}, nil
}

func (e entry) check(id string, report func(field, format string, args ...any)) {
	const most = 100_000_000
	if star := strings.IndexByte(id, '*'); id == "" || star >= 0 && star != len(id)-1 {
		report("", "a name is a model's id, or a prefix that ends in *")
	}
	if e.ContextWindow < 0 || e.ContextWindow > most {
		report(".context_window", "%d tokens are not possible", e.ContextWindow)
	}
	if e.MaxOutput < 0 || e.MaxOutput > most {
		report(".max_output", "%d tokens are not possible", e.MaxOutput)
	}
	if e.Price == nil {
		return
	}
	for _, p := range []struct {
		field, text string
		needed      bool
	}{
		{".price.input", e.Price.Input, true},
		{".price.output", e.Price.Output, true},
		{".price.cache_read", e.Price.CacheRead, false},
		{".price.cache_write", e.Price.CacheWrite, false},
		{".price.cache_write_1h", e.Price.CacheWrite1h, false},
	} {
		if p.text == "" && !p.needed {
			continue
		}
		if _, ok := nanoUSD(p.text); !ok {
			report(p.field, "%q is no price: write USD per million tokens as a decimal with at most 9 places, like \"0.25\"", p.text)
		}
	}
}

// Merge is t with the entries of over before its own. Of an entry that both have,
// what over leaves out stays as it is in t.
func (t *Table) Merge(over *Table) *Table {
	merged := &Table{Date: over.Date, models: maps.Clone(t.models)}
	if merged.Date == "" {
		merged.Date = t.Date
	}
	if merged.models == nil {
		merged.models = map[string]entry{}
	}
	for id, e := range over.models {
		merged.models[id] = merged.models[id].merge(e)
	}
	return merged
}

func (e entry) merge(over entry) entry {
	if over.ContextWindow > 0 {
		e.ContextWindow = over.ContextWindow
	}
	if over.MaxOutput > 0 {
		e.MaxOutput = over.MaxOutput
	}
	if over.Images != nil {
		e.Images = over.Images
	}
	if over.Structured != nil {
		e.Structured = over.Structured
	}
	if over.Sampling != nil {
		e.Sampling = over.Sampling
	}
	if over.Price != nil {
		e.Price = over.Price
	}
	return e
}

// Caps is what the table says of a model. long: it is asked to keep its cache for an
// hour, which has a price of its own.
func (t *Table) Caps(model string, long bool) agent.Caps { return t.find(model).caps(long) }

// Sampling tells whether a model takes temperature and top_p, as far as the table
// knows.
func (t *Table) Sampling(model string) bool {
	e := t.find(model)
	return e.Sampling == nil || *e.Sampling
}

// find is the entry of a model: its own, else that of the longest prefix.
func (t *Table) find(model string) entry {
	if e, ok := t.models[model]; ok {
		return e
	}
	best := ""
	for id := range t.models {
		prefix, ok := strings.CutSuffix(id, "*")
		if ok && strings.HasPrefix(model, prefix) && len(id) > len(best) {
			best = id
		}
	}
	return t.models[best]
}

func (e entry) caps(long bool) agent.Caps {
	caps := agent.Caps{
		ContextWindow:    e.ContextWindow,
		MaxOutput:        e.MaxOutput,
		Images:           e.Images != nil && *e.Images,
		StructuredOutput: e.Structured != nil && *e.Structured,
	}
	if caps.ContextWindow == 0 {
		caps.ContextWindow = UnknownWindow
	}
	if e.Price != nil {
		caps.Price = e.Price.price(long)
	}
	return caps
}

func (p prices) price(long bool) *agent.Price {
	or := func(text string, otherwise int64) int64 {
		if n, ok := nanoUSD(text); ok {
			return n
		}
		return otherwise
	}
	price := &agent.Price{Input: or(p.Input, 0), Output: or(p.Output, 0)}
	price.CacheRead = or(p.CacheRead, price.Input)
	price.CacheWrite = or(p.CacheWrite, price.Input)
	if long {
		price.CacheWrite = or(p.CacheWrite1h, price.CacheWrite)
	}
	return price
}

var decimal = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,9})?$`)

// nanoUSD is a decimal amount of USD in 10⁻⁹ USD.
func nanoUSD(text string) (int64, bool) {
	if !decimal.MatchString(text) {
		return 0, false
	}
	amount, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, false
	}
	amount.Mul(amount, big.NewRat(1_000_000_000, 1))
	return amount.Num().Int64(), amount.IsInt()
}
