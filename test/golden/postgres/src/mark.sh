# mark.sh RUN WORD: an effect that can be counted. A word that begins with "slow" is a
# place to be killed at: it takes long as long as there is no file "go".
echo "$2" >>"effects/$1"
case $2 in slow*) test -e go || sleep 100 ;; esac
