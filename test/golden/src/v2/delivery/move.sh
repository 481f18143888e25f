git mv old.txt new.txt
printf 'a\0b' >data.bin
echo changed >>kept.txt
rm gone.txt
