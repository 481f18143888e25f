package sqlguard

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sqlc-dev/marino/parser"
	"github.com/sqlc-dev/oliphant"

	"github.com/tipstaff/tipstaff/policy"
)

var sqlDialects = []string{"postgres", "mysql", "trino"}

// hostile are texts made to exhaust a parser that descends recursively or tries
// one way after another. That the test ends is what it is about: a stack that
// overflows cannot be recovered from.
func hostile() map[string]string {
	nest := func(n int, open, middle, closing string) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(closing, n)
	}
	const deep = maxSQLDepth - 1
	many := func(text string) int { return (maxSQL - 100) / len(text) }
	return map[string]string{
		"1 MB of opening brackets":   strings.Repeat("(", 1<<20),
		"1 MB of brackets":           "SELECT " + nest(1<<19, "(", "1", ")"),
		"as many brackets as fit":    "SELECT " + strings.Repeat("(", maxSQL-7),
		"brackets hidden by strings": "SELECT " + strings.Repeat("(')', ", many("(')', ")),
		"brackets":                   "SELECT " + nest(deep, "(", "1", ")"),
		"brackets not closed":        "SELECT " + strings.Repeat("(", deep),
		"bracketed tables":           "SELECT * FROM " + nest(deep, "(", "t", ")"),
		"subqueries":                 nest(deep, "SELECT (", "SELECT 1", ")"),
		"subqueries in FROM":         nest(deep, "SELECT * FROM (", "SELECT 1", ") x"),
		"bracketed subqueries":       nest(deep/2, "SELECT ((", "SELECT 1", "))"),
		"IN":                         "SELECT 1 WHERE " + nest(deep, "1 IN (", "1", ")"),
		"IN of brackets":             "SELECT 1 WHERE " + nest(deep/2, "(1, 2) IN ((", "1", "))"),
		"EXISTS":                     "SELECT 1 WHERE " + nest(deep, "NOT EXISTS (SELECT 1 WHERE ", "true", ")"),
		"calls":                      "SELECT " + nest(deep, "lower(", "'a'", ")"),
		"calls and brackets":         "SELECT " + nest(deep/2, "lower((", "'a'", "))"),
		"CASE in brackets":           "SELECT " + nest(deep, "CASE WHEN (", "1", ") THEN 1 END"),
		"WITH":                       nest(deep, "WITH a AS (", "SELECT 1", ") SELECT 1"),
		"unions in brackets":         nest(deep, "(SELECT 1 UNION ", "SELECT 1", ")"),
		"rows":                       "SELECT " + nest(deep, "(1, ", "1", ")") + " = " + nest(deep, "(1, ", "1", ")"),
		"CASE":                       "SELECT " + strings.Repeat("CASE WHEN ", many("CASE WHEN ")),
		"NOT":                        "SELECT " + strings.Repeat("NOT ", many("NOT ")) + "true",
		"minus":                      "SELECT " + strings.Repeat("- ", many("- ")) + "1",
		"plus":                       "SELECT " + strings.Repeat("1+", many("1+")) + "1",
		"AND":                        "SELECT " + strings.Repeat("true AND ", many("true AND ")) + "true",
		"OR and AND":                 "SELECT " + strings.Repeat("true AND true OR ", many("true AND true OR ")) + "true",
		"commas":                     "SELECT " + strings.Repeat("1,", many("1,")) + "1",
		"joins":                      "SELECT * FROM a" + strings.Repeat(" JOIN a", many(" JOIN a")),
		"UNION":                      "SELECT 1" + strings.Repeat(" UNION SELECT 1", many(" UNION SELECT 1")),
		"statements":                 strings.Repeat("SELECT 1;", many("SELECT 1;")),
		"EXPLAIN":                    strings.Repeat("EXPLAIN ", many("EXPLAIN ")) + "SELECT 1",
		"quotes":                     "SELECT " + strings.Repeat("'", maxSQL-8),
		"comments":                   strings.Repeat("/**/", many("/**/")) + "SELECT 1",
	}
}

func TestSQLGuardEndsOnHostileText(t *testing.T) {
	for name, sql := range hostile() {
		for _, dialect := range sqlDialects {
			t.Run(name+"/"+dialect, func(t *testing.T) {
				f := findSQL(t, policy.GuardConfig{Dialect: dialect}, sql)
				if len(sql) > maxSQL && f.Class != "write" {
					t.Errorf("%d bytes are %s", len(sql), f.Class)
				}
			})
		}
	}
}

func TestSQLGuardTakesTooMuchForWriting(t *testing.T) {
	for _, c := range []struct{ sql, access, why string }{
		{"SELECT " + strings.Repeat("(", maxSQLDepth) + "1" + strings.Repeat(")", maxSQLDepth), "read", ""},
		{"SELECT " + strings.Repeat("(", maxSQLDepth+1) + "1" + strings.Repeat(")", maxSQLDepth+1), "write", "nest deeper"},
		{"SELECT 1" + strings.Repeat(" ", maxSQL-8), "read", ""},
		{"SELECT 1" + strings.Repeat(" ", maxSQL-7), "write", "not looked into"},
		{"SELECT 1" + strings.Repeat(" + 1", 500), "read", ""},
		{"SELECT 1" + strings.Repeat(" + 1", maxSQLTree), "write", "too deep"},
	} {
		for _, dialect := range sqlDialects {
			facts := factsOf(t, findSQL(t, policy.GuardConfig{Dialect: dialect}, c.sql))
			if facts.Access != c.access || !strings.Contains(facts.Why, c.why) {
				t.Errorf("%s: %.20s… is %s because %q, want %s because of %q", dialect, c.sql, facts.Access, facts.Why, c.access, c.why)
			}
		}
	}
}

func TestSQLGuardConfinesAPanicOfTheParser(t *testing.T) {
	broken := sqlPostgres
	broken.read = func(*sqlText, *sqlLook) error { panic("index out of range") }
	g := &sqlGuard{arg: policy.Pointer{"sql"}, dialect: &broken}
	f := g.Find(json.RawMessage(`{"sql": "SELECT 1"}`))
	if facts := factsOf(t, f); !f.Writes || facts.Why != "the parser failed" {
		t.Errorf("%+v", facts)
	}
}

// FuzzSQLGuard looks for a text that is taken for reading although something is
// wrong with that.
func FuzzSQLGuard(f *testing.F) {
	for _, seed := range []string{
		"SELECT a, lower(b) FROM s.t WHERE x = 'y' -- z",
		"WITH u AS (SELECT 1) SELECT * FROM u UNION SELECT 2 FROM `t`",
		"EXPLAIN UPDATE t SET a = 1; SELECT 1",
		"SELECT 'a\\' /*! , sleep(1) */ , \"b\" # c",
		"SELECT $$a$$, E'\\'', U&'\\0041', x -> '$.a' FROM t FOR UPDATE",
		"VALUES (1), (nextval('s'))",
		"SHOW TABLES FROM a.b LIKE 'c'",
		"SELECT @a := 1 INTO OUTFILE 'x'",
		"SELECT 5--1\r\n/* a /* b */ */;",
		"DESCRIBE t",
		"SELECT * FROM TABLE(f(x => 1))",
		"SELECT \u00a0\ufffd größe",
	} {
		for i := range sqlDialects {
			f.Add(uint8(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, d uint8, sql string) {
		dialect := sqlDialects[int(d)%len(sqlDialects)]
		found := findSQL(t, policy.GuardConfig{Dialect: dialect, Single: true}, sql)
		facts := factsOf(t, found)
		if found.Writes != (found.Class != "read") || found.Class != facts.Access || facts.Access != "read" && facts.Access != "write" {
			t.Fatalf("%s: %q: contradicting %+v", dialect, sql, found)
		}
		if again := findSQL(t, policy.GuardConfig{Dialect: dialect, Single: true}, sql); string(again.Facts) != string(found.Facts) {
			t.Fatalf("%s: %q: first %s, then %s", dialect, sql, found.Facts, again.Facts)
		}
		if found.Class != "read" {
			return
		}
		checkRead(t, dialect, sql, facts)
	})
}

// checkRead checks by other means than the guard's a text that it takes for
// reading.
func checkRead(t *testing.T, dialect, sql string, facts sqlFacts) {
	t.Helper()
	if facts.Statements == 0 || facts.Why != "" {
		t.Errorf("%s: %q: nothing is read, or there is a reason against it: %+v", dialect, sql, facts)
	}
	for _, kind := range facts.Kinds {
		if !strings.Contains(" select show describe explain insert update delete merge replace ", " "+kind+" ") {
			t.Errorf("%s: %q: a %s is taken for reading", dialect, sql, kind)
		}
	}
	// If quotes and comments were read wrongly, an addition would vanish in one.
	added := findSQL(t, policy.GuardConfig{Dialect: dialect, Single: true}, sql+"\n; DELETE FROM t")
	if after := factsOf(t, added); !added.Writes || added.Refused == "" || after.Statements != facts.Statements+1 {
		t.Errorf("%s: %q: with a DELETE after it %s", dialect, sql, added.Facts)
	}
	switch dialect {
	case "postgres":
		checkSummary(t, sql)
	case "mysql":
		if _, _, err := parser.New().ParseSQL(sql); err != nil {
			t.Errorf("%q is taken for reading, but: %v", sql, err)
		}
	}
}

// checkSummary compares with what the parser itself says of a text, which it finds
// out in its own way.
func checkSummary(t *testing.T, sql string) {
	t.Helper()
	summary, err := oliphant.Summary(sql, 0)
	if err != nil {
		t.Errorf("%q is taken for reading, but: %v", sql, err)
		return
	}
	for _, function := range summary.Functions {
		name := strings.TrimPrefix(function.Name, "pg_catalog.")
		if !sqlPostgres.harmless()[name] {
			t.Errorf("%q calls %s and is taken for reading", sql, function.Name)
		}
	}
	for _, statement := range summary.StatementTypes {
		switch statement {
		case "SelectStmt", "VariableShowStmt", "ExplainStmt":
		case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
			if !strings.Contains(strings.Join(summary.StatementTypes, " "), "ExplainStmt") {
				t.Errorf("%q holds %s and is taken for reading", sql, statement)
			}
		default:
			t.Errorf("%q holds %s and is taken for reading", sql, statement)
		}
	}
}
