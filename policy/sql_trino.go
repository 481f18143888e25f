package policy

import "sync"

// sqlTrino is read with the parser of PostgreSQL, since there is none for Trino.
// That is sound because of what Trino is: a statement that begins with SELECT,
// WITH, VALUES, TABLE or a bracket is a query to it, and a query has no effect but
// through the functions it calls. What the parser does not accept, TABLE(function())
// and TRY_CAST among it, is writing. The scan leaves over only what both read
// alike: without prefixes of strings, dollar quotes, nested comments and long names.
var sqlTrino = sqlDialect{
	lexis:    sqlLexis{noPrefixes: true, maxName: 63, marks: "()[],.=<>+-*/%|!"},
	read:     readTrino,
	harmless: sync.OnceValue(func() map[string]bool { return wordSet(trinoFunctions) }),
}

var trinoGrammar = sync.OnceValue(func() *sqlGrammar {
	rules := postgresRules{
		operators: wordSet(trinoOperators),
		explain:   wordSet("type format"),
	}
	return rules.grammar()
})

func readTrino(t *sqlText, l *sqlLook) error {
	if !areShows(t.statements) {
		return readByPostgres(t, l, trinoGrammar())
	}
	for _, s := range t.statements {
		l.kind(s.kind())
	}
	return nil
}

// areShows knows SHOW and DESCRIBE of names and patterns, which the parser of
// PostgreSQL does not. Without a bracket nothing is called, and no statement of
// Trino that begins with these words changes anything.
func areShows(statements []sqlStatement) bool {
	for _, s := range statements {
		if kind := s.kind(); !s.bare || kind != "show" && kind != "describe" {
			return false
		}
	}
	return true
}
