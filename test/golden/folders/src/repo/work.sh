# work.sh WORD does a piece of work in the current directory.
set -e
case $1 in
everything)
	echo three >>changed.txt
	echo new >new.txt
	rm deleted.txt
	mv before.txt after.txt
	chmod +x switched
	echo 'echo tool' >tool.sh
	chmod +x tool.sh
	;;
slow) # as long as there is no file "go" beside the repository, which lies in /mnt
	echo slow >>/mnt/repo/effects/slow
	echo slow >slow.txt
	test -e /mnt/go || sleep 1000
	;;
*) echo "$1 of the run" >"$1.txt" ;;
esac
