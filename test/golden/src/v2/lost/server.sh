# An MCP server in the shell: three tools that append their name to effects/RUN.
schema='{"type":"object","properties":{"run":{"type":"string"}},"required":["run"]}'
while IFS= read -r line; do
	id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	case $line in
	*'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"counter","version":"1.0.0"}}' ;;
	*'"method":"tools/list"'*) result='{"tools":[{"name":"peek","description":"Reads.","inputSchema":'$schema',"annotations":{"readOnlyHint":true}},{"name":"put","description":"Puts.","inputSchema":'$schema',"annotations":{"idempotentHint":true}},{"name":"fire","description":"Fires.","inputSchema":'$schema'}]}' ;;
	*'"method":"tools/call"'*)
		run=$(printf '%s' "$line" | sed 's/.*"run":"\([a-z]*\)".*/\1/')
		tool=$(printf '%s' "$line" | sed 's/.*"name":"\([a-z]*\)".*/\1/')
		echo "$tool" >>"effects/$run"
		case $tool-$run in fire-*) test -e go || sleep 100 ;; esac
		result='{"content":[{"type":"text","text":"{\"did\":\"'$tool'\"}"}],"structuredContent":{"did":"'$tool'"}}'
		;;
	*) result='{}' ;;
	esac
	[ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
