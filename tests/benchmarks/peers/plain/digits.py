"""The four steps as a plain script: the least that any tool can cost. `python digits.py 4`"""

import sys
from pathlib import Path

import joblib
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score, recall_score
from sklearn.model_selection import train_test_split


def main(max_digits: int) -> None:
    parts = train_test_split(*load_digits(return_X_y=True), random_state=3)
    model = RandomForestClassifier(random_state=0).fit(parts[0], parts[2])
    found = model.predict(parts[1])
    weak = sum(recall_score(parts[3], found, average=None) < 0.95)
    print(f"accuracy {accuracy_score(parts[3], found):.4f}, {weak} weak digits, {max_digits} allowed")
    if weak > max_digits:
        sys.exit(f"{weak} digits are read too badly")
    Path("registry").mkdir(exist_ok=True)
    joblib.dump(model, "registry/digits.joblib")


if __name__ == "__main__":
    main(int(sys.argv[1]))
