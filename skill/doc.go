// Package skill reads skills: folders that tell a model how to do one kind of
// work, and Tipstaff what that work may use.
//
// A skill is a folder <id>/:
//
//	SKILL.md     front matter with name and description, then prose for the model
//	skill.yaml   id, version, verbs, inputs, outputs, tools, sub_skills, failure_modes; without it
//	             the skill is one as it is published, and may use nothing
//	plan.yaml    optional: a ready plan, which needs no model
//	others       scripts, references, assets: only their digests are kept
//
// It is named by a pinned URI, skill://<id>@<version>, and by a digest of what
// the files say. Everything is read through an os.Root: neither .. nor a
// symbolic link leads out of the folder.
//
// The package knows nothing of plans, tools and runs. It keeps plan.yaml as the
// bytes it is, and checks the form of tool URIs, not whether there is such a
// tool. Start at [Open] for a folder of skills, at [Load] for one; [Thaw] reads
// back what [Skill.Freeze] wrote, so that a run keeps the skill it began with.
package skill
