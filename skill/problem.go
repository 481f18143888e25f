package skill

// Codes of what can be wrong with the files of a skill, beside those of every
// document.
const (
	codeFileMissing   = "file_missing"
	codeFile          = "file_unreadable" // a folder, a device, or a link that leads out
	codeFrontMatter   = "front_matter"    // SKILL.md does not begin with any, or it never ends
	codeSchemaInvalid = "schema_invalid"
	codeInvalidURI    = "invalid_uri"
	codeUnpinnedTool  = "unpinned_tool"
	codeUnpinnedSkill = "unpinned_skill"
	codeMismatch      = "skill_mismatch" // id or version is not that of folder or URI
)
