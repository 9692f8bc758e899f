# %% stdout error:StdinNotImplementedError
print("before")
name = input("name? ")
# %% error:StdinNotImplementedError
import getpass
getpass.getpass()
# %% text/plain
import sys
sys.stdin.readline(), sys.stdin.read(), list(sys.stdin)
# %% stdout
!read line; echo "got [$line]"
