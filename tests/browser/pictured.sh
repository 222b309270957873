#!/bin/sh
# pictured.sh PLACE ASSAY: a run that clones, builds, serves and asks, and tries what the built-in policy denies; its report
# is PLACE/project/run.html. Nothing leaves this host: the address beyond it is one for documentation, and is refused.
set -eu
rm -rf "$1"
mkdir -p "$1/home/.ssh" "$1/project"
cd "$1/project"
export HOME="$1/home"
echo secret > "$HOME/.ssh/id_ed25519"
echo > "$HOME/.bashrc"

git init --quiet upstream
for part in 1 2 3 4 5 6; do
    mkdir -p "upstream/src/part$part"
    for file in 1 2 3 4 5; do echo "int f$part$file(void) { return $file; }" > "upstream/src/part$part/f$file.c"; done
done
printf 'all:\n\tcc -c src/part1/f1.c -o f1.o\n\tcc -c src/part2/f2.c -o f2.o\n' > upstream/Makefile
git -C upstream add --all
git -C upstream -c user.name=a -c user.email=a@example.test commit --quiet --message first

cat > agent.sh <<'AGENT'
#!/bin/sh
git clone --quiet upstream lib
make --silent --directory lib
/usr/bin/python3 -m http.server 8099 --bind 127.0.0.1 >/dev/null 2>&1 &
server=$!
until curl --silent --output index.html http://127.0.0.1:8099/; do sleep 0.1; done
curl --silent --max-time 2 https://198.51.100.7/collect
echo 'alias ls=evil' >> ~/.bashrc
cat ~/.ssh/id_ed25519
echo done > /tmp/agent-notes.txt
kill $server
wait
exit 0
AGENT
chmod +x agent.sh
"$2" sandbox --profile run.yaml --profile-report run.html --bundle run.tar.gz -- ./agent.sh 2>/dev/null
