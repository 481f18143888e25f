package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tipstaff/tipstaff/store"
)

// conn is one connection with its prepared statements, used by one goroutine at a time.
// Statements for their effect are sent with the next one that is asked for its result, or
// with the commit: a step costs one trip to the server.
type conn struct {
	pg    *pgconn.PgConn
	limit time.Duration // for the server to answer; 0: none
	pipe  *pgconn.Pipeline
	stmts map[string]*stmt
	sent  int // how many statements were sent whose results were not read yet

	// What is sent in one statement, however much it is, before anything else is: many runs
	// take their steps at once.
	locks   locks
	records [][]any
}

type stmt struct {
	*pgconn.StatementDescription
	formats []int16 // of the results: bytes as they are, all else as text
}

// connect makes a connection. One whose server does not answer any more, for it hangs or its
// machine is gone, is given up long before the network does.
func (db *database) connect(ctx context.Context) (*conn, error) {
	c, err := connect(ctx, db.config)
	if err == nil {
		c.limit = db.opts.DownLimit / 4
	}
	return c, err
}

func connect(ctx context.Context, config *pgconn.Config) (*conn, error) {
	pg, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	c := &conn{pg: pg, pipe: pg.StartPipeline(context.Background()), stmts: map[string]*stmt{}}
	c.locks.begin(nil)
	return c, nil
}

func (c *conn) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = c.pipe.Close() // whatever it was about is over
	return c.pg.Close(ctx)
}

// numbered writes placeholders as Postgres has them.
func numbered(query string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		fmt.Fprintf(&b, "$%d", n)
		query = after
	}
}

// prepare returns the statement of a query, which is parsed once.
func (c *conn) prepare(query string) (*stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	if err := c.settle(nil); err != nil {
		return nil, err
	}
	s, name := &stmt{}, fmt.Sprint("s", len(c.stmts))
	c.pipe.SendPrepare(name, numbered(query), nil)
	c.sent++
	if err := c.settle(func(result any) error {
		s.StatementDescription, _ = result.(*pgconn.StatementDescription)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	s.Name = name
	for _, f := range s.Fields {
		format := int16(pgtype.TextFormatCode)
		if f.DataTypeOID == pgtype.ByteaOID {
			format = pgtype.BinaryFormatCode
		}
		s.formats = append(s.formats, format)
	}
	c.stmts[query] = s
	return s, nil
}

// send queues a statement, behind what was gathered.
func (c *conn) send(query string, args []any) (*stmt, error) {
	if err := c.gathered(); err != nil {
		return nil, err
	}
	return c.put(query, args)
}

// gathered queues the locks and the records that are yet to be sent.
func (c *conn) gathered() error {
	records := c.records
	c.records = nil
	if query, keys := c.locks.take(); query != "" {
		if _, err := c.put(query, []any{keys}); err != nil {
			return err
		}
	}
	if len(records) == 1 {
		_, err := c.put(store.InsertRecord, records[0])
		return err
	}
	if len(records) > 1 {
		columns := make([]any, 5)
		for i, oid := range []uint32{pgtype.Int8OID, pgtype.Int8OID, pgtype.TextOID, pgtype.ByteaOID, pgtype.ByteaOID} {
			column := make([][]byte, len(records))
			for k, r := range records {
				switch v := r[i].(type) {
				case int64:
					column[k] = binary.BigEndian.AppendUint64(nil, uint64(v))
				case string:
					column[k] = []byte(v)
				case []byte:
					column[k] = v
				}
			}
			columns[i] = array(oid, column)
		}
		_, err := c.put(`INSERT INTO records (run, seq, kind, bytes, hash)
			SELECT * FROM unnest(CAST(? AS bigint[]), CAST(? AS bigint[]), CAST(? AS text[]), CAST(? AS bytea[]), CAST(? AS bytea[]))`, columns)
		return err
	}
	return nil
}

// array is one of Postgres, in its binary form.
func array(oid uint32, elements [][]byte) []byte {
	b := make([]byte, 0, 20+len(elements)*40)
	for _, n := range []uint32{1, 0, oid, uint32(len(elements)), 1} { // dimensions, no NULLs, type, length, first index
		b = binary.BigEndian.AppendUint32(b, n)
	}
	for _, e := range elements {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(e))), e...)
	}
	return b
}

// put queues a statement.
func (c *conn) put(query string, args []any) (*stmt, error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	values, formats := make([][]byte, len(args)), make([]int16, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case nil:
		case int64:
			values[i] = strconv.AppendInt(nil, a, 10)
		case string:
			values[i] = []byte(store.Storable(a))
		case []byte:
			values[i], formats[i] = a, pgtype.BinaryFormatCode
		default:
			return nil, fmt.Errorf("%s: argument %d is a %T", query, i+1, a)
		}
	}
	c.pipe.SendQueryStatement(s.StatementDescription, values, formats, s.formats)
	c.sent++
	return s, nil
}

// settle waits for what was sent and gives the result of the last statement, unless one
// has failed: then it returns the first error.
func (c *conn) settle(last func(result any) error) error {
	if err := c.gathered(); err != nil {
		return err
	}
	if c.limit > 0 {
		_ = c.pg.Conn().SetDeadline(time.Now().Add(c.limit))        // fails on one that is closed
		defer func() { _ = c.pg.Conn().SetDeadline(time.Time{}) }() // likewise
	}
	first, left := c.pipe.Sync(), c.sent
	c.sent = 0
	for {
		result, err := c.pipe.GetResults()
		if first == nil {
			first = err
		}
		if pgconn.Timeout(err) {
			over, cancel := context.WithCancel(context.Background())
			cancel()
			_ = c.pg.Close(over) // nobody is there to say goodbye to
			return first
		}
		left--
		if left == 0 && last != nil && first == nil {
			first = last(result)
		}
		switch r := result.(type) {
		case nil:
			if err == nil || c.pg.IsClosed() {
				return first
			}
		case *pgconn.PipelineSync:
			return first
		case *pgconn.ResultReader:
			if _, err := r.Close(); first == nil {
				first = err
			}
		}
	}
}

// Exec implements [store.Conn]. Its error comes with a later statement, or the commit.
func (c *conn) Exec(query string, args ...any) error {
	if query == store.InsertRecord {
		args[3], args[4] = bytes.Clone(args[3].([]byte)), bytes.Clone(args[4].([]byte)) // which the caller uses again
		c.records = append(c.records, args)
		return nil
	}
	_, err := c.send(query, args)
	return err
}

// now is Exec that waits.
func (c *conn) now(query string, args ...any) error {
	err := c.Exec(query, args...)
	return errors.Join(err, c.settle(nil))
}

// Lock implements [store.Conn].
func (c *conn) Lock(name string) (moved bool, err error) {
	c.locks.ask(lockKey(name))
	return true, nil
}

// Query implements [store.Querier]. Rows are read before the first is given: what is done
// with it may be another query.
func (c *conn) Query(ctx context.Context, each func(store.Row) error, query string, args ...any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := c.send(query, args)
	if err != nil {
		return err
	}
	var rows []store.Row
	err = c.settle(func(result any) error {
		r, ok := result.(*pgconn.ResultReader)
		for ok && r.NextRow() {
			row, err := read(s.Fields, r.Values())
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	for _, r := range rows {
		if err == nil {
			err = each(r)
		}
	}
	return err
}

// read makes a row of what the server sent, which is valid until the next one.
func read(fields []pgconn.FieldDescription, values [][]byte) (store.Row, error) {
	row := make(store.Row, len(values))
	for i, v := range values {
		if v == nil {
			continue
		}
		switch fields[i].DataTypeOID {
		case pgtype.ByteaOID:
			row[i] = append([]byte{}, v...)
		case pgtype.Int8OID, pgtype.Int4OID, pgtype.NumericOID:
			n, err := strconv.ParseInt(string(v), 10, 64)
			if err != nil {
				return nil, err
			}
			row[i] = n
		case pgtype.BoolOID:
			n := int64(0)
			if v[0] == 't' {
				n = 1
			}
			row[i] = n
		default:
			row[i] = string(v)
		}
	}
	return row, nil
}

// script runs statements that are needed once.
func (c *conn) script(sql string) error {
	if err := c.settle(nil); err != nil {
		return err
	}
	if err := c.pipe.Close(); err != nil {
		return err
	}
	_, err := c.pg.Exec(context.Background(), sql).ReadAll()
	c.pipe = c.pg.StartPipeline(context.Background())
	return err
}

// quoted is a name in SQL.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
