package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// taskRow is a task as stored.
type taskRow struct {
	tipstaff.Task
	alias  string // by which the records of its run name it
	opened int64
	began  string // its document before that record
}

const selectTasks = `SELECT id, "user", path, alias, opened, began, doc FROM tasks WHERE `

func scanTask(r Row) (row taskRow, err error) {
	if err := json.Unmarshal(r.Bytes(6), &row.Task); err != nil {
		return row, fmt.Errorf("%w: the stored task %s: %w", ErrDamaged, r.Text(0), err)
	}
	row.User, row.Path, row.Implicit = r.Text(1), r.Text(2), r.Text(2) != ""
	row.alias, row.opened, row.began = r.Text(3), r.Int(4), r.Text(5)
	return row, nil
}

func readTasks(ctx context.Context, q Querier, where string, args ...any) (rows []taskRow, err error) {
	err = q.Query(ctx, func(r Row) error {
		row, err := scanTask(r)
		rows = append(rows, row)
		return err
	}, selectTasks+where, args...)
	return rows, err
}

func readTask(ctx context.Context, q Querier, id string) (taskRow, error) {
	if err := tipstaff.CheckTaskID(id); err != nil {
		return taskRow{}, err
	}
	rows, err := readTasks(ctx, q, `id = ?`, id)
	if err == nil && len(rows) == 0 {
		err = noTask(id)
	}
	if err != nil {
		return taskRow{}, err
	}
	return rows[0], nil
}

func noTask(id string) error {
	return tipstaff.Errorf(tipstaff.TaskNotFound, "there is no task %s", tipstaff.Printable(id)).WithCommand("`tipstaff task list` shows those there are")
}

// Task is one; task_not_found.
func (s *Store) Task(ctx context.Context, id string) (tipstaff.Task, error) {
	row, err := readTask(ctx, s.db, id)
	return row.Task, err
}

// RunTask is the task that the records of a run name so. In a fork that is its own copy.
func (s *Store) RunTask(ctx context.Context, run, name string) (tipstaff.Task, error) {
	row, err := runTask(ctx, s.db, run, name)
	return row.Task, err
}

func runTask(ctx context.Context, q Querier, run, name string) (taskRow, error) {
	for _, column := range []string{"alias", "id"} {
		rows, err := readTasks(ctx, q, `run = ? AND `+column+` = ?`, run, name)
		if err != nil || len(rows) > 0 {
			return append(rows, taskRow{})[0], err
		}
	}
	return taskRow{}, tipstaff.Errorf(tipstaff.TaskNotFound, "run %s has no task %s", run, tipstaff.Printable(name))
}

// Tasks are in the order of their ids. user: only theirs; "": everybody's.
func (s *Store) Tasks(ctx context.Context, q tipstaff.TaskQuery, user string) (tasks []tipstaff.Task, err error) {
	where, args := "true", []any{}
	add := func(is bool, condition string, values ...any) {
		if is {
			where, args = where+" AND "+condition, append(args, values...)
		}
	}
	add(user != "", `"user" = ?`, user)
	add(q.Status != "", "status = ?", string(q.Status))
	add(q.Run != "", "run = ? AND run <> ''", q.Run)
	add(!q.Implicit, "path = ''")
	rows, err := readTasks(ctx, s.db, where+" ORDER BY number, id", args...)
	for _, row := range rows {
		tasks = append(tasks, row.Task)
	}
	return tasks, err
}

// TaskLog is what was written on a task, oldest first.
func (s *Store) TaskLog(ctx context.Context, id string) ([]tipstaff.TaskLogLine, error) {
	return readTaskLog(ctx, s.db, id)
}

func readTaskLog(ctx context.Context, q Querier, id string) (lines []tipstaff.TaskLogLine, err error) {
	err = q.Query(ctx, func(r Row) error {
		lines = append(lines, tipstaff.TaskLogLine{At: r.Time(0), Level: r.Text(1), Text: r.Text(2)})
		return nil
	}, `SELECT at, level, text FROM task_log WHERE task = ? ORDER BY n`, id)
	return lines, err
}

// NewTask stores a pending task. Without an id it is given the next multiple of ten.
func (s *Store) NewTask(ctx context.Context, task tipstaff.Task) (made tipstaff.Task, err error) {
	err = s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) error {
		row := taskRow{Task: task}
		err := t.newTask(&row)
		made = row.Task
		return err
	}})
	return made, err
}

// newTask stores a pending task, and gives it its id unless it has one.
func (t *Tx) newTask(row *taskRow) (err error) {
	if err := t.alone("tasks"); err != nil {
		return err
	}
	if row.ID == "" {
		if row.ID, err = t.nextTaskID(); err != nil {
			return err
		}
	} else if n, err := t.number(`SELECT count(*) FROM tasks WHERE id = ?`, row.ID); err != nil {
		return err
	} else if n > 0 {
		return tipstaff.Errorf(tipstaff.TaskConflict, "there is a task %s already", tipstaff.Printable(row.ID))
	}
	row.Status, row.Iteration, row.Revision = tipstaff.TaskPending, 1, 1
	row.CreatedAt, row.UpdatedAt = t.now, t.now
	if row.Inputs == nil {
		row.Inputs = []tipstaff.TaskInput{}
	}
	row.Outputs, row.Feedback = []tipstaff.TaskOutput{}, []tipstaff.TaskFeedback{}
	if row.Metadata == nil {
		row.Metadata = map[string]string{}
	}
	return t.insertTask(row)
}

// nextTaskID is the next multiple of ten, so that people can put tasks in between.
func (t *Tx) nextTaskID() (string, error) {
	last, err := t.number(`SELECT max(number) FROM tasks`)
	return fmt.Sprintf("%03d", last/10*10+10), err
}

func (t *Tx) insertTask(row *taskRow) error {
	if err := checkTask(row.Task); err != nil {
		return err
	}
	number, err := strconv.ParseInt(row.ID, 10, 64)
	if err != nil {
		return err
	}
	t.Tasks = append(t.Tasks, row.ID)
	return t.exec(`INSERT INTO tasks (id, number, "user", status, ended, run, alias, path, opened, began, revision, doc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		row.ID, number, row.User, string(row.Status), flag(row.Status.Ended()), row.RunID, row.alias, row.Path, row.opened, row.began, row.Revision, string(flow.JSON(row.Task)))
}

// checkTask refuses a task that no document may be.
func checkTask(task tipstaff.Task) error {
	if ps := tipstaff.ValidateTask(task); len(ps) > 0 {
		e := tipstaff.Errorf(tipstaff.InvalidArgument, "task %s is not valid: %s", tipstaff.Printable(task.ID), ps[0].Message)
		e.Problems = ps
		return e
	}
	return nil
}

// saveTask stores what became of a task, and whatever that entails.
func (t *Tx) saveTask(row *taskRow) error {
	if err := checkTask(row.Task); err != nil {
		return err
	}
	err := t.exec(`UPDATE tasks SET status = ?, ended = ?, run = ?, alias = ?, opened = ?, began = ?, revision = ?, doc = ? WHERE id = ?`,
		string(row.Status), flag(row.Status.Ended()), row.RunID, row.alias, row.opened, row.began, row.Revision, string(flow.JSON(row.Task)), row.ID)
	t.Tasks = append(t.Tasks, row.ID)
	if err == nil && row.Status.Ended() && row.RunID != "" {
		err = t.closeSessions(`task = ? AND run = ?`, row.alias, row.RunID)
	}
	return err
}

// UpdateTask changes a task by f, which may be called again, in one transaction. A
// revision other than 0 must be the task's, else it is task_conflict. An error of f is
// returned as it is and nothing is stored; nor is it if f changes nothing.
func (s *Store) UpdateTask(ctx context.Context, id string, revision int64, f func(*tipstaff.Task) error) (task tipstaff.Task, err error) {
	err = s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) error {
		if err := t.alone("tasks"); err != nil {
			return err
		}
		row, err := readTask(ctx, t.c, id)
		if err != nil {
			return err
		}
		if revision != 0 && revision != row.Revision {
			return tipstaff.Errorf(tipstaff.TaskConflict, "task %s has changed: it has revision %d, not %d", id, row.Revision, revision).
				WithHint("read it again and repeat the change")
		}
		before, was := string(flow.JSON(row.Task)), row.Revision
		if err := f(&row.Task); err != nil {
			return err
		}
		task = row.Task
		if string(flow.JSON(row.Task)) == before {
			return nil
		}
		row.Revision, row.UpdatedAt = was+1, t.now
		task = row.Task
		return t.saveTask(&row)
	}})
	return task, err
}

// OpenTask makes the task of a run's step or stage, in progress, or finds the one that
// was made for that path before. Its id is what records of the run are to name.
func (s *Store) OpenTask(ctx context.Context, run, path string, task tipstaff.Task) (opened tipstaff.Task, err error) {
	if path == "" {
		return opened, errors.New("the task of a step or stage has its path")
	}
	err = s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) error {
		if err := t.alone("tasks"); err != nil {
			return err
		}
		there, err := readTasks(ctx, t.c, `run = ? AND path = ?`, run, path)
		if err != nil {
			return err
		}
		if len(there) > 0 {
			opened = there[0].Task
			return nil
		}
		st, err := t.state(run)
		if err != nil {
			return err
		}
		row := taskRow{Task: task}
		row.Path, row.Implicit = path, true
		err = t.query(func(r Row) error { row.User = r.Text(0); return nil }, `SELECT "user" FROM runs WHERE n = ?`, st.n)
		if err == nil {
			err = t.newTask(&row)
		}
		if err == nil {
			err = t.begin(st, &row, path)
		}
		if err == nil {
			row, err = runTask(ctx, t.c, run, row.ID)
		}
		opened = row.Task
		return err
	}})
	return opened, err
}

// begin gives a pending task to a run, and records it there.
func (t *Tx) begin(st *runState, row *taskRow, path string) error {
	moved := beginning(row.Task)
	trial := row.Task
	if err := trial.Apply(st.id, t.now, moved); err != nil {
		return err
	}
	err := t.exec(`UPDATE tasks SET run = ?, alias = ?, opened = ?, began = ?, doc = ? WHERE id = ?`,
		st.id, row.ID, st.seq+1, string(flow.JSON(row.Task)), string(flow.JSON(row.Task)), row.ID)
	if err != nil {
		return err
	}
	return t.append(st, 0, flow.Draft{Kind: string(tipstaff.KindTaskStatus), Path: path, Note: true, Body: flow.JSON(moved)})
}

// beginning is the move by which a run takes a task.
func beginning(t tipstaff.Task) tipstaff.TaskMoved {
	return tipstaff.TaskMoved{Task: t.ID, From: tipstaff.TaskPending, To: tipstaff.TaskInProgress, By: string(tipstaff.BySystem), Iteration: t.Iteration}
}

// assign gives the task that a new run is made for to that run. Of two runs one gets it.
func (t *Tx) assign(st *runState, run flow.NewRun) error {
	if run.Task == "" {
		return nil
	}
	if err := t.alone("tasks"); err != nil {
		return err
	}
	row, err := readTask(context.Background(), t.c, run.Task)
	switch {
	case err != nil:
		return err
	case row.Implicit:
		return tipstaff.Errorf(tipstaff.TaskTransition, "task %s stands for %s of run %s, which alone does it", row.ID, row.Path, row.RunID)
	case row.Status != tipstaff.TaskPending && !row.Status.Ended():
		return tipstaff.Errorf(tipstaff.TaskBusy, "task %s is %s: run %s does it", row.ID, row.Status, row.RunID).
			WithCommand("`tipstaff task resume %s` goes on with it", row.ID)
	case run.Worker != "":
		row.Worker = run.Worker
	}
	return t.begin(st, &row, "")
}

// readTaskBody reads the body of a record that concerns a task; nil: it does not.
func readTaskBody(kind tipstaff.Kind, body json.RawMessage) (any, string, error) {
	switch kind {
	case tipstaff.KindTaskStatus:
		var b tipstaff.TaskMoved
		err := json.Unmarshal(body, &b)
		return b, b.Task, err
	case tipstaff.KindTaskLog:
		var b tipstaff.TaskLogged
		err := json.Unmarshal(body, &b)
		return b, b.Task, err
	case tipstaff.KindTaskOutput:
		var b tipstaff.TaskBrought
		err := json.Unmarshal(body, &b)
		return b, b.Task, err
	}
	return nil, "", nil
}

// projectTask adds a record to the task that it names. One that does not fit is not
// stored.
func (t *Tx) projectTask(st *runState, r flow.Record) error {
	body, name, err := readTaskBody(tipstaff.Kind(r.Kind), r.Body)
	if err != nil {
		return fmt.Errorf("body of %s: %w", r.Kind, err)
	}
	if body == nil {
		return nil
	}
	if err := t.alone("tasks"); err != nil {
		return err
	}
	row, err := runTask(context.Background(), t.c, st.id, name)
	if err != nil {
		return err
	}
	if err := row.Apply(st.id, r.At, body); err != nil {
		return err
	}
	if line, ok := body.(tipstaff.TaskLogged); ok {
		return t.logTask(row.ID, tipstaff.TaskLogLine{At: r.At, Level: line.Level, Text: line.Text})
	}
	return t.saveTask(&row)
}

// endTasks ends the tasks of a run before the record that ends it: a run ends only with
// its tasks ended. Work that was reported, and that nobody is to review, is complete if
// the run is.
func (t *Tx) endTasks(st *runState, epoch int64, end tipstaff.Kind) error {
	const own = `run = ? AND run <> '' AND ended = 0 ORDER BY number, id`
	rows, err := readTasks(context.Background(), t.c, own, st.id)
	if err == nil && len(rows) > 0 { // most runs have none
		if err = t.alone("tasks"); err == nil {
			rows, err = readTasks(context.Background(), t.c, own, st.id)
		}
	}
	if err != nil {
		return err
	}
	for _, row := range rows {
		m := tipstaff.TaskMoved{Task: row.alias, From: row.Status, To: tipstaff.TaskAbandoned, By: string(tipstaff.BySystem), Iteration: row.Iteration, Why: endings[end]}
		if end == tipstaff.KindIntentAttest && row.Status == tipstaff.TaskNeedsReview && row.Review == tipstaff.ReviewNone {
			m.To = tipstaff.TaskCompleted
		}
		err := t.append(st, epoch, flow.Draft{Kind: string(tipstaff.KindTaskStatus), Path: row.Path, Note: true, Body: flow.JSON(m)})
		if err != nil {
			return err
		}
	}
	return nil
}

// endings are why the tasks of a run end with it.
var endings = map[tipstaff.Kind]string{
	tipstaff.KindIntentAttest: "the run has completed",
	tipstaff.KindIntentFail:   "the run has failed",
	tipstaff.KindIntentCancel: "the run was cancelled",
}

// copyTasks gives a fork its own copies of the tasks that its source had at that record:
// what each was when the source began with it, and the records up to there.
func (t *Tx) copyTasks(run flow.NewRun) error {
	if run.Base == "" {
		return nil
	}
	rows, err := readTasks(context.Background(), t.c, `run = ? AND run <> '' ORDER BY number, id`, run.Base)
	rows = slices.DeleteFunc(rows, func(row taskRow) bool { return row.opened > run.BaseSeq && row.Implicit })
	if err != nil || len(rows) == 0 {
		return err
	}
	if err := t.alone("tasks"); err != nil {
		return err
	}
	records, err := t.taskRecords(run.Base)
	if err != nil {
		return err
	}
	for _, source := range rows {
		if err := t.copyTask(run, source, records); err != nil {
			return err
		}
	}
	return nil
}

// copyTask stores a copy. A fork shares no session with its source.
func (t *Tx) copyTask(run flow.NewRun, source taskRow, records []flow.Record) error {
	row := taskRow{alias: source.alias} // opened is 0: it has the task from the start
	if err := json.Unmarshal([]byte(source.began), &row.Task); err != nil {
		return fmt.Errorf("%w: task %s as it began: %w", ErrDamaged, source.ID, err)
	}
	id, err := t.nextTaskID()
	if err != nil {
		return err
	}
	later := 0 // lines of its log that come after the record
	for _, r := range records {
		body, name, err := readTaskBody(tipstaff.Kind(r.Kind), r.Body)
		if err != nil {
			return fmt.Errorf("body of %s: %w", r.Kind, err)
		}
		if name != source.alias && name != source.ID {
			continue
		}
		if r.Seq <= run.BaseSeq {
			err = row.Apply(run.Base, r.At, body)
		} else if _, ok := body.(tipstaff.TaskLogged); ok {
			later++
		}
		if err != nil {
			return err
		}
	}
	lines, err := readTaskLog(context.Background(), t.c, source.ID)
	for _, line := range lines[:max(0, len(lines)-later)] {
		if err == nil {
			err = t.logTask(id, line)
		}
	}
	if err != nil {
		return err
	}
	if row.Status == tipstaff.TaskPending { // the run was made for it, and is forked before it says so
		if err := row.Apply(run.Base, t.now, beginning(row.Task)); err != nil {
			return err
		}
	}
	row.ID, row.RunID, row.SessionID = id, run.ID, ""
	row.User, row.Path, row.Implicit = run.User, source.Path, source.Implicit
	row.began = string(flow.JSON(row.Task))
	return t.insertTask(&row)
}

func (t *Tx) logTask(id string, line tipstaff.TaskLogLine) error {
	t.Tasks = append(t.Tasks, id)
	return t.exec(`INSERT INTO task_log (task, at, level, text) VALUES (?, ?, ?, ?)`, id, line.At.UnixNano(), line.Level, line.Text)
}

// taskRecords are the records of a run that concern tasks.
func (t *Tx) taskRecords(run string) (records []flow.Record, err error) {
	err = t.query(func(r Row) error {
		rec, err := journal.Parse(r.Bytes(0))
		records = append(records, recordOf(rec))
		return err
	}, `SELECT bytes FROM records WHERE run = (SELECT n FROM runs WHERE id = ?) AND kind >= 'task.' AND kind < 'task/' ORDER BY seq`, run)
	return records, err
}
